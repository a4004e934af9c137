//! Common parts of report pages. Each page is one self-contained file, for light and dark screens of any width.

use super::plot::paint;

/// The style of all pages, beside the colours and that of drawings (`plot/paint.rs`).
const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:2.5rem auto;padding:0 1.25rem}
h1{font-size:1.35rem;margin:0 0 .25rem;overflow-wrap:anywhere}h1 code{font:inherit}h2{font-size:1.05rem;margin:2.25rem 0 .25rem}
p{margin:.25rem 0 1rem;color:var(--dim)}p b,p code{color:var(--ink)}
ul.big{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:1rem;list-style:none;padding:0;margin:1.5rem 0}
ul.big li{border:1px solid var(--line);border-radius:.6rem;padding:.7rem 1rem;color:var(--dim)}
ul.big b{display:block;font-size:1.45rem;color:var(--ink);font-variant-numeric:tabular-nums}
ul.do{margin:.5rem 0 1.5rem;padding:0 0 0 1.1rem}ul.do li{margin:.35rem 0}
svg{width:100%;height:auto;display:block}.picture{overflow-x:auto}.picture svg{min-width:46rem}
.key{display:flex;flex-wrap:wrap;gap:.4rem 1.5rem;margin:.5rem 0 1rem;padding:0;list-style:none;color:var(--dim)}
.key i{display:inline-block;width:1rem;height:.3rem;border-radius:2px;margin-right:.45rem;vertical-align:middle}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;margin:.5rem 0}th,td{text-align:left;padding:.35rem .5rem;border-bottom:1px solid var(--line);font-weight:400}
thead th{color:var(--dim);font-size:.85rem}td{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}td:first-child:not(.r){text-align:left}th.r{text-align:right}
.tag{border:1px solid var(--line);border-radius:1rem;padding:0 .5rem;font-size:.8rem;font-weight:400;white-space:nowrap}
tr.recommended>*{background:var(--card);border-bottom-color:var(--c);font-weight:600}tr.recommended .tag{border-color:var(--c);color:var(--c);font-weight:600}
pre{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:.7rem 1rem;overflow-x:auto}";

/// A page with a title and a body.
#[cfg(feature = "analyze")]
pub fn page(title: &str, body: &str) -> String {
    styled_page(title, "", body)
}

/// The same with additional style.
pub fn styled_page(title: &str, style: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>memfold: {}</title>\n<style>{}{STYLE}{style}</style></head><body>\n{body}</body></html>\n",
        escape(title),
        paint::style()
    )
}

/// Figures in large print.
#[cfg(feature = "analyze")]
pub fn headline(figures: &[(String, &str)]) -> String {
    let items: String = figures
        .iter()
        .map(|(value, name)| format!("<li><b>{}</b>{}</li>\n", escape(value), escape(name)))
        .collect();
    format!("<ul class=\"big\">\n{items}</ul>\n")
}

/// The legend of the colours.
#[cfg(feature = "analyze")]
pub fn key(colours: &[(char, &str)]) -> String {
    let item = |(colour, name): &(char, &str)| {
        format!("<li><i style=\"background:var(--{colour})\"></i>{}</li>\n", escape(name))
    };
    format!("<ul class=\"key\">\n{}</ul>\n", colours.iter().map(item).collect::<String>())
}

/// A row of a table, and a word that marks it, if it is a special one: its class, and a tag in its first cell.
#[cfg(feature = "analyze")]
pub type Marked = (Vec<String>, Option<&'static str>);

/// A table; the first cell of a row is left-aligned, the others right-aligned.
#[cfg(feature = "analyze")]
pub fn table(titles: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    marked_table(titles, rows.into_iter().map(|row| (row, None)))
}

/// The same, with marked rows.
#[cfg(feature = "analyze")]
pub fn marked_table(titles: &[&str], rows: impl IntoIterator<Item = Marked>) -> String {
    let title = |(at, title): (usize, &&str)| {
        format!("<th{}>{}</th>", if at == 0 { "" } else { " class=\"r\"" }, escape(title))
    };
    let head: String = titles.iter().enumerate().map(title).collect();
    let line = |(row, mark): Marked| {
        let (class, tag) = match mark {
            Some(word) => (format!(" class=\"{}\"", class_of(word)), tag(word)),
            None => Default::default(),
        };
        let cell = |(at, cell): (usize, &String)| {
            format!("<td>{}{}</td>", escape(cell), if at == 0 { tag.as_str() } else { "" })
        };
        let cells: String = row.iter().enumerate().map(cell).collect();
        format!("<tr{class}>{cells}</tr>\n")
    };
    let body: String = rows.into_iter().map(line).collect();
    format!(
        "<div class=\"wide\"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>\n"
    )
}

/// The word of a marked row. A colour alone would say nothing to many readers, and nothing in print.
pub fn tag(word: &str) -> String {
    format!(" <b class=\"tag\">{}</b>", escape(word))
}

/// The class of a marked row.
#[cfg(feature = "analyze")]
fn class_of(word: &str) -> String {
    escape(&word.replace(' ', "-"))
}

/// Escapes text so that nothing in it is markup or changes the text direction.
pub fn escape(text: &str) -> String {
    memfold_escape::lines(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_rows_have_a_class_and_a_word() {
        let rows = [(vec!["1".into(), "2".into()], Some("asked for")), (vec!["3".into()], None)];
        let table = marked_table(&["a", "b"], rows);
        assert!(table.contains(
            "<tr class=\"asked-for\"><td>1 <b class=\"tag\">asked for</b></td><td>2</td></tr>\n<tr><td>3</td></tr>"
        ));
    }

    #[test]
    fn markup_in_arguments_stays_text() {
        assert_eq!(escape("<b a=\"x\">&"), "&lt;b a=&quot;x&quot;&gt;&amp;");
        assert!(page("<script>", "").contains("<title>memfold: &lt;script&gt;</title>"));
        assert!(table(&["a"], [vec!["<i>".into()]]).contains("<td>&lt;i&gt;</td>"));
    }
}
