//! A caller of the API that reads everything.

use axum::http::HeaderMap;
use reqwest::Method;
use serde_json::Value;
use std::time::Duration;

#[derive(Debug)]
pub struct Caller {
    http: reqwest::Client,
    pub url: String,
    pub key: String,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Caller {
    pub fn new(url: &str, key: &str) -> Caller {
        let http = conveyor_outbound::client_builder().no_proxy().timeout(Duration::from_secs(60)).build();
        Caller { http: http.unwrap(), url: url.to_owned(), key: key.to_owned() }
    }

    /// `to` is a path of the API, or a whole URL.
    pub async fn send(
        &self,
        method: Method,
        to: &str,
        body: Option<String>,
        headers: &[(&str, &str)],
    ) -> Answer {
        let signed = to.starts_with("http");
        let mut request =
            self.http.request(method, if signed { to.to_owned() } else { format!("{}{to}", self.url) });
        if !signed {
            request = request.header("X-API-Key", &self.key);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        Answer { status, headers, body: answer.bytes().await.unwrap().to_vec() }
    }

    pub async fn try_get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None, &[]).await
    }

    pub async fn get(&self, path: &str) -> Value {
        let answer = self.try_get(path).await;
        assert_eq!(answer.status, 200, "GET {path}: {}", answer.text());
        answer.json()
    }

    pub async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Value {
        let (name, text) = (method.to_string(), body.map(Value::to_string));
        let answer = self.send(method, path, text, &[("content-type", "application/json")]).await;
        assert!((200..300).contains(&answer.status), "{name} {path}: {} {}", answer.status, answer.text());
        if answer.body.is_empty() { Value::Null } else { answer.json() }
    }

    pub async fn post(&self, path: &str, body: &Value) -> Value {
        self.call(Method::POST, path, Some(body)).await
    }

    /// All of a list, page by page.
    pub async fn pages(&self, path: &str, name: &str) -> Vec<Value> {
        let (mut all, mut more) = (Vec::new(), String::new());
        loop {
            let page = self.get(&format!("{path}?limit=100{more}")).await;
            all.extend(page[name].as_array().unwrap().iter().cloned());
            match page["next_cursor"].as_str() {
                Some(cursor) => more = format!("&cursor={cursor}"),
                None => return all,
            }
        }
    }
}
