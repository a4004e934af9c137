//! Common parts of report pages. Each page is one self-contained file, for light and dark screens.

/// Named colours for the page and its pictures.
const STYLE: &str = "\
:root{--ink:#1c2530;--dim:#5d6878;--line:#e3e8ee;--paper:#fff;--card:#f7f9fb;--a:#2f6fde;--b:#8a94a3;--c:#12966a;--d:#d2452f;--e:#b7791f;--f:#7a55c7}
@media(prefers-color-scheme:dark){:root{--ink:#e6ebf2;--dim:#93a0b2;--line:#2a323d;--paper:#14191f;--card:#1a2129;--a:#5b93f5;--b:#aab4c2;--c:#35c08f;--d:#f2705b;--e:#e0a63f;--f:#a98bf0}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:2.5rem auto;padding:0 1.25rem}
h1{font-size:1.35rem;margin:0 0 .25rem;overflow-wrap:anywhere}h1 code{font:inherit}h2{font-size:1.05rem;margin:2.25rem 0 .25rem}
p{margin:.25rem 0 1rem;color:var(--dim)}p b,p code{color:var(--ink)}
ul.big{display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:1rem;list-style:none;padding:0;margin:1.5rem 0}
ul.big li{border:1px solid var(--line);border-radius:.6rem;padding:.7rem 1rem;color:var(--dim)}
ul.big b{display:block;font-size:1.45rem;color:var(--ink);font-variant-numeric:tabular-nums}
ul.do{margin:.5rem 0 1.5rem;padding:0 0 0 1.1rem}ul.do li{margin:.35rem 0}
svg{width:100%;height:auto;display:block}svg text{font:12px system-ui,sans-serif;fill:var(--dim)}svg text.ink{fill:var(--ink)}
.grid{stroke:var(--line);fill:none}.axis{stroke:var(--b);fill:none}.y,.end{text-anchor:end}.x,.middle{text-anchor:middle}
.fa{fill:var(--a)}.fb{fill:var(--b)}.fc{fill:var(--c)}.fd{fill:var(--d)}.fe{fill:var(--e)}.ff{fill:var(--f)}.soft{fill-opacity:.3}
.la,.lb,.lc,.ld,.le,.lf{fill:none;stroke-width:2}.la{stroke:var(--a)}.lb{stroke:var(--b)}.lc{stroke:var(--c)}.ld{stroke:var(--d)}.le{stroke:var(--e)}.lf{stroke:var(--f)}
.resident{fill:var(--a);fill-opacity:.22;stroke:var(--a);stroke-width:1.5}.logical{fill:none;stroke:var(--b);stroke-width:2}.payload{fill:none;stroke:var(--c);stroke-width:1.5}
.limit{stroke:var(--d);stroke-width:1.5;stroke-dasharray:6 4}svg .limit-name{fill:var(--d);text-anchor:end}
.dash{stroke-dasharray:6 4;stroke-width:1.5}
.key{display:flex;flex-wrap:wrap;gap:.4rem 1.5rem;margin:.5rem 0 1rem;padding:0;list-style:none;color:var(--dim)}
.key i{display:inline-block;width:1rem;height:.3rem;border-radius:2px;margin-right:.45rem;vertical-align:middle}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;margin:.5rem 0}th,td{text-align:left;padding:.35rem .5rem;border-bottom:1px solid var(--line);font-weight:400}
thead th{color:var(--dim);font-size:.85rem}td{text-align:right;font-variant-numeric:tabular-nums}td:first-child:not(.r){text-align:left}th.r{text-align:right}
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
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>memfold: {}</title>\n<style>{STYLE}{style}</style></head><body>\n{body}</body></html>\n",
        escape(title)
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

/// A table; the first cell of a row is left-aligned, the others right-aligned.
#[cfg(feature = "analyze")]
pub fn table(titles: &[&str], rows: &[Vec<String>]) -> String {
    let title = |(at, title): (usize, &&str)| {
        format!("<th{}>{}</th>", if at == 0 { "" } else { " class=\"r\"" }, escape(title))
    };
    let head: String = titles.iter().enumerate().map(title).collect();
    let line = |row: &Vec<String>| {
        let cells: String = row.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let body: String = rows.iter().map(line).collect();
    format!(
        "<div class=\"wide\"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>\n"
    )
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
    fn markup_in_arguments_stays_text() {
        assert_eq!(escape("<b a=\"x\">&"), "&lt;b a=&quot;x&quot;&gt;&amp;");
        assert!(page("<script>", "").contains("<title>memfold: &lt;script&gt;</title>"));
        assert!(table(&["a"], &[vec!["<i>".into()]]).contains("<td>&lt;i&gt;</td>"));
    }
}
