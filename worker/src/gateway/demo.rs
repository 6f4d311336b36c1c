//! `demo:` answers every URL with a small synthetic document in the format that was asked for, so that a first job
//! works with no network. The same request gets the same bytes. `null:` answers with nothing, at once: what is left is the
//! speed of the pipeline.

use super::{Gateway, GatewayAnswer, GatewayRequest};
use async_trait::async_trait;
use bytes::Bytes;
use conveyor_domain::Format;

#[derive(Clone, Copy, Debug)]
pub struct DemoGateway;

#[async_trait]
impl Gateway for DemoGateway {
    async fn call(&self, request: GatewayRequest) -> GatewayAnswer {
        let body = document(&request.url, Format::of(&request.params));
        GatewayAnswer::page(200, Bytes::from(body))
    }
}

#[derive(Clone, Copy, Debug)]
pub struct NullGateway;

#[async_trait]
impl Gateway for NullGateway {
    async fn call(&self, _request: GatewayRequest) -> GatewayAnswer {
        GatewayAnswer::page(200, Bytes::new())
    }
}

fn document(url: &str, format: Format) -> Vec<u8> {
    match format {
        Format::Html => html(url).into_bytes(),
        Format::Json => {
            serde_json::json!({ "url": url, "title": "Demo page", "demo": true }).to_string().into_bytes()
        }
        // Markdown may carry HTML, and so may a URL: escaped, it is text in both.
        Format::Markdown => format!("# Demo page\n\nThis stands in for {}\n", escape_html(url)).into_bytes(),
        Format::Plaintext => format!("Demo page\n\nThis stands in for {url}\n").into_bytes(),
        Format::Pdf => pdf(url),
    }
}

fn html(url: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>Demo page</title></head>\n\
         <body>\n<h1>Demo page</h1>\n<p>This stands in for <code>{}</code></p>\n</body>\n</html>\n",
        escape_html(url)
    )
}

fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// One page with one line. A reader finds the objects by the byte offsets in the table at the end.
fn pdf(url: &str) -> Vec<u8> {
    let content = format!("BT /F1 10 Tf 20 100 Td (Demo page: {}) Tj ET", escape_pdf(url));
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 200] /Contents 4 0 R \
         /Resources << /Font << /F1 5 0 R >> >> >>"
            .to_owned(),
        format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
    ];
    let mut file = "%PDF-1.4\n".to_owned();
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for (i, object) in objects.iter().enumerate() {
        table.push_str(&format!("{:010} 00000 n \n", file.len()));
        file.push_str(&format!("{} 0 obj\n{object}\nendobj\n", i + 1));
    }
    let table_at = file.len();
    let size = objects.len() + 1;
    file.push_str(&format!("{table}trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{table_at}\n%%EOF\n"));
    file.into_bytes()
}

/// The built-in fonts know ASCII, and parentheses delimit a string.
fn escape_pdf(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '(' | ')' | '\\' => escaped.extend(['\\', c]),
            ' '..='~' => escaped.push(c),
            _ => escaped.push('?'),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "https://t.example/?a=<script>alert('1')</script>&b=\"(é)\\";

    fn text(format: Format) -> String {
        String::from_utf8(document(HOSTILE, format)).unwrap()
    }

    #[test]
    fn names_the_url_and_never_as_markup() {
        for format in [Format::Html, Format::Markdown] {
            let page = text(format);
            assert!(!page.contains("<script"), "{page}");
            assert!(page.contains(
                "https://t.example/?a=&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;b=&quot;(é)"
            ));
        }
        assert!(text(Format::Plaintext).contains(HOSTILE));
        let json: serde_json::Value = serde_json::from_str(&text(Format::Json)).unwrap();
        assert_eq!(json["url"], HOSTILE);
    }

    #[test]
    fn the_same_request_gets_the_same_bytes() {
        assert_eq!(text(Format::Html), text(Format::Html));
    }

    #[test]
    fn the_pdf_table_points_at_its_objects() {
        let file = text(Format::Pdf);
        assert!(file.starts_with("%PDF-1.4\n") && file.ends_with("%%EOF\n"));
        assert!(file.contains(r"b="), "{file}");
        assert!(file.contains(r"\(?\)\\) Tj"), "parentheses are escaped: {file}");
        let table_at = file.rfind("xref\n0 6").unwrap();
        assert!(file.contains(&format!("startxref\n{table_at}\n")));
        for (i, entry) in file[table_at..].lines().skip(3).take(5).enumerate() {
            let at: usize = entry[..10].parse().unwrap();
            assert!(file[at..].starts_with(&format!("{} 0 obj\n", i + 1)), "{entry}");
        }
        let content = file.split("stream\n").nth(1).unwrap().strip_suffix("\nend").unwrap();
        assert!(file.contains(&format!("/Length {} ", content.len())));
    }
}
