//! The colours and strokes of drawings: one table, for the style of pages and for drawings by themselves.
//!
//! ```text
//!  class "fa" ──> the page's style   .fa{fill:var(--a)}     light or dark, as the screen is
//!             └─> its own attribute  fill="#2f6fde"         where there is no page: a saved drawing
//! ```
//!
//! Attributes yield to any style. So a drawing has the colours of its page as long as it is in it, and needs
//! nothing from there when it is saved as a file of its own. Programs other than browsers know neither
//! variables nor, some of them, style sheets.

use std::fmt::Write;

/// The namespace of SVG.
pub const XMLNS: &str = "http://www.w3.org/2000/svg";
/// Fonts, the first that is there.
pub const FONTS: &str = "system-ui,'Segoe UI','DejaVu Sans',Arial,sans-serif";

/// Colours on light and on dark screens.
const COLOURS: [(&str, &str, &str); 23] = [
    ("ink", "#1c2530", "#e6ebf2"),
    ("dim", "#5d6878", "#93a0b2"),
    ("line", "#e3e8ee", "#2a323d"),
    ("paper", "#fff", "#14191f"),
    ("card", "#f7f9fb", "#1a2129"),
    ("a", "#2f6fde", "#5b93f5"),
    ("b", "#8a94a3", "#aab4c2"),
    ("c", "#12966a", "#35c08f"),
    ("d", "#d2452f", "#f2705b"),
    ("e", "#b7791f", "#e0a63f"),
    ("f", "#7a55c7", "#a98bf0"),
    ("s", "#e69f00", "#f0b33c"),
    ("v", "#d55e00", "#f5853f"),
    ("k", "#8d99a8", "#7c8898"),
    ("m", "#b07aa8", "#c79bc2"),
    ("q0", "#eceff3", "#222a33"),
    ("q1", "#d6e6f4", "#15324f"),
    ("q2", "#abcfe5", "#184b7c"),
    ("q3", "#73b2d7", "#1f68a8"),
    ("q4", "#4090c5", "#3d8acb"),
    ("q5", "#1a68ae", "#6caee2"),
    ("q6", "#0b4a8a", "#a6d0f0"),
    ("q7", "#072a55", "#ecf6ff"),
];

/// Properties; a value that begins with `--` is a colour.
type Rule = &'static [(&'static str, &'static str)];

/// Classes, and what they mean. A later class of an element prevails.
const RULES: [(&str, Rule); 49] = [
    ("fa", &[("fill", "--a")]),
    ("fb", &[("fill", "--b")]),
    ("fc", &[("fill", "--c")]),
    ("fd", &[("fill", "--d")]),
    ("fe", &[("fill", "--e")]),
    ("ff", &[("fill", "--f")]),
    ("fs", &[("fill", "--s")]),
    ("fv", &[("fill", "--v")]),
    ("fk", &[("fill", "--k")]),
    ("fm", &[("fill", "--m")]),
    ("la", &[("fill", "none"), ("stroke", "--a"), ("stroke-width", "2")]),
    ("lb", &[("fill", "none"), ("stroke", "--b"), ("stroke-width", "2")]),
    ("lc", &[("fill", "none"), ("stroke", "--c"), ("stroke-width", "2")]),
    ("ld", &[("fill", "none"), ("stroke", "--d"), ("stroke-width", "2")]),
    ("le", &[("fill", "none"), ("stroke", "--e"), ("stroke-width", "2")]),
    ("lf", &[("fill", "none"), ("stroke", "--f"), ("stroke-width", "2")]),
    // Cells of a map: a little higher than a row, so that no gaps show between rows.
    ("cell", &[("fill", "none"), ("stroke-width", "1.02"), ("shape-rendering", "crispEdges")]),
    ("q0", &[("stroke", "--q0")]),
    ("q1", &[("stroke", "--q1")]),
    ("q2", &[("stroke", "--q2")]),
    ("q3", &[("stroke", "--q3")]),
    ("q4", &[("stroke", "--q4")]),
    ("q5", &[("stroke", "--q5")]),
    ("q6", &[("stroke", "--q6")]),
    ("q7", &[("stroke", "--q7")]),
    ("area", &[("fill-opacity", ".8")]),
    ("line", &[("fill", "none"), ("stroke-width", "1.75")]),
    ("ink", &[("stroke", "--ink")]),
    ("red", &[("stroke", "--d"), ("stroke-dasharray", "6 4")]),
    ("thin", &[("fill", "none"), ("stroke", "--dim"), ("stroke-width", "1"), ("stroke-dasharray", "2 3")]),
    ("grid", &[("fill", "none"), ("stroke", "--line")]),
    ("axis", &[("fill", "none"), ("stroke", "--dim")]),
    ("leader", &[("stroke", "--dim"), ("stroke-width", ".6")]),
    ("best", &[("fill", "none"), ("stroke", "--dim"), ("stroke-dasharray", "5 4")]),
    ("mark", &[("stroke", "--paper"), ("stroke-width", ".8")]),
    ("dash", &[("stroke-dasharray", "6 4"), ("stroke-width", "1.5")]),
    // Its stroke keeps its width in a drawing that is stretched.
    ("even", &[("vector-effect", "non-scaling-stroke")]),
    ("paper", &[("fill", "--paper")]),
    ("words", &[("fill", "--dim")]),
    ("strong", &[("fill", "--ink")]),
    ("title", &[("fill", "--ink"), ("font-size", "18px"), ("font-weight", "600")]),
    ("panel", &[("fill", "--ink"), ("font-size", "13px"), ("font-weight", "600")]),
    ("small", &[("font-size", "10px")]),
    (
        "name",
        &[
            ("fill", "--ink"),
            ("stroke", "--paper"),
            ("stroke-width", "3px"),
            ("paint-order", "stroke"),
            ("stroke-linejoin", "round"),
        ],
    ),
    ("y", &[("text-anchor", "end")]),
    ("end", &[("text-anchor", "end")]),
    ("x", &[("text-anchor", "middle")]),
    ("middle", &[("text-anchor", "middle")]),
    ("alone", &[]),
];

fn colour(name: &str) -> (&'static str, &'static str) {
    let found = COLOURS.iter().find(|(own, ..)| *own == name);
    found.map_or(("#000", "#000"), |(_, light, dark)| (light, dark))
}

fn rule(class: &str) -> Rule {
    let found = RULES.iter().find(|(own, _)| *own == class);
    debug_assert!(found.is_some(), "the class {class} has no rule");
    found.map_or(&[], |(_, rule)| rule)
}

/// The attributes that an element of these classes has by itself.
pub fn attributes(classes: &str) -> Vec<(&'static str, &'static str)> {
    let mut all: Vec<(&'static str, &'static str)> = Vec::new();
    for (name, value) in classes.split(' ').flat_map(rule) {
        all.retain(|(own, _)| own != name);
        all.push((name, value.strip_prefix("--").map_or(*value, |name| colour(name).0)));
    }
    all
}

/// The same as text, with the classes.
pub fn paint(classes: &str) -> String {
    let mut text = format!("class=\"{classes}\"");
    for (name, value) in attributes(classes) {
        let _ = write!(text, " {name}=\"{value}\"");
    }
    text
}

/// The start of a drawing.
pub fn open(width: f64, height: f64, more: &str) -> String {
    format!(
        "<svg xmlns=\"{XMLNS}\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"{FONTS}\" font-size=\"12\" {more}>"
    )
}

/// The style of a page: its colours, and the classes of its drawings.
pub fn style() -> String {
    let mut text = String::from(":root{");
    COLOURS.iter().for_each(|(name, light, _)| text += &format!("--{name}:{light};"));
    text += "}\n@media(prefers-color-scheme:dark){:root{";
    COLOURS.iter().for_each(|(name, _, dark)| text += &format!("--{name}:{dark};"));
    text += "}}\n";
    for (class, rule) in RULES.iter().filter(|(_, rule)| !rule.is_empty()) {
        let _ = write!(text, "svg .{class}{{");
        for (name, value) in *rule {
            match value.starts_with("--") {
                true => text += &format!("{name}:var({value});"),
                false => text += &format!("{name}:{value};"),
            }
        }
        text.push('}');
    }
    text.push('\n');
    text
}

/// The style of a drawing that has no page: dark screens. The rest is in its attributes.
#[cfg(feature = "bench")]
pub fn dark() -> String {
    let mut text = String::from("@media(prefers-color-scheme:dark){");
    for (class, rule) in &RULES {
        for (name, value) in *rule {
            if let Some(colour_name) = value.strip_prefix("--") {
                let _ = write!(text, ".{class}{{{name}:{}}}", colour(colour_name).1);
            }
        }
    }
    text + "}"
}

/// Checks that a drawing can be a file of its own, and returns it.
#[cfg(test)]
pub fn check_alone(svg: &str) -> roxmltree::Document<'_> {
    let document = roxmltree::Document::parse(svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
    let root = document.root_element();
    assert_eq!((root.tag_name().name(), root.tag_name().namespace()), ("svg", Some(XMLNS)));
    let number = |name: &str| root.attribute(name).and_then(|value| value.parse::<f64>().ok());
    assert!(number("width").is_some_and(|it| it > 0.0) && number("height").is_some_and(|it| it > 0.0));
    let sides: Vec<f64> =
        root.attribute("viewBox").unwrap().split(' ').map(|it| it.parse().unwrap()).collect();
    assert_eq!(sides[2..], [number("width").unwrap(), number("height").unwrap()]);
    assert!(root.attribute("font-family").is_some_and(|fonts| fonts.ends_with("sans-serif")));
    for outside in ["var(", "url(", "href", "@import", "src="] {
        assert!(!svg.contains(outside), "{outside}: {svg}");
    }
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        for class in node.attribute("class").iter().flat_map(|classes| classes.split(' ')) {
            for (name, _) in rule(class) {
                assert!(node.attribute(*name).is_some(), "{class} needs {name}: {svg}");
            }
        }
        if matches!(node.tag_name().name(), "path" | "rect" | "circle" | "text") {
            let painted = ["fill", "stroke"].map(|name| node.attribute(name).is_some_and(|it| it != "none"));
            assert!(painted.contains(&true), "nothing would show: {:?}", node.attributes());
        }
        assert_ne!(node.tag_name().name(), "foreignObject");
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_those_of_the_style() {
        assert_eq!(paint("area fa"), "class=\"area fa\" fill-opacity=\".8\" fill=\"#2f6fde\"");
        // The later class prevails, and no attribute is there twice.
        assert!(paint("ld dash").ends_with("stroke-dasharray=\"6 4\" stroke-width=\"1.5\""));
        let style = style();
        assert!(style.contains("--a:#2f6fde;") && style.contains("svg .fa{fill:var(--a);}"));
        for (class, rule) in RULES {
            for (_, value) in rule.iter().filter(|(_, value)| value.starts_with("--")) {
                assert!(COLOURS.iter().any(|(name, ..)| *name == &value[2..]), "{class}: {value}");
            }
        }
    }
}
