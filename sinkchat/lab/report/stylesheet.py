"""The look of a report: one column, quiet, in the theme that the reader's system asks for, and on paper in ink."""

from __future__ import annotations

from sinkchat.lab.report import palette


def stylesheet() -> str:
    """All CSS of the document."""
    light, dark = palette.variables("light"), palette.variables("dark")
    return (
        f":root{{color-scheme:light dark;{light}}}"
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        # Paper is white whatever the screen is.
        f"@media print{{:root{{color-scheme:light;{light}}}}}"
        f"{_PAGE}{_DRAWINGS}{palette.classes()}{_NARROW}{_PRINT}"
    )


# A table that is wider than its page has a shadow at the right edge, which the end of the table covers.
_PAGE = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif;
overflow-wrap:break-word}
main{max-width:1044px;margin:0 auto;padding:40px 22px 64px}
h1{font-size:25px;line-height:1.32;font-weight:600;letter-spacing:-.012em;margin:6px 0 14px;max-width:35em;
text-wrap:pretty}
h2{font-size:20px;line-height:1.3;font-weight:600;margin:52px 0 12px;padding-top:14px;
border-top:1px solid var(--grid)}
h3{font-size:15px;font-weight:600;margin:0 0 6px}
p{margin:0 0 12px;max-width:44em}
.over{color:var(--muted);font-size:14px;margin:0}
.note{color:var(--muted)}
.warn{border-left:3px solid var(--window);padding-left:12px}
dl{margin:0}
.facts{display:grid;grid-template-columns:max-content 1fr;gap:3px 20px;font-size:14px}
dt{color:var(--muted)}
dd{margin:0;min-width:0;overflow-wrap:anywhere}
.terms{font-size:14px;display:grid;grid-template-columns:9em 1fr;gap:7px 18px;max-width:60em}
.terms dt{color:var(--ink);font-weight:600}
code,pre{font:13px/1.5 ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}
pre{background:var(--raised);padding:12px 14px;border-radius:5px;white-space:pre-wrap;overflow-wrap:anywhere;
margin:8px 0}
figure{margin:26px 0 34px}
h2+figure{margin-top:18px}
figcaption{color:var(--muted);font-size:13.5px;line-height:1.5;margin-top:8px;max-width:58em}
.scroll{overflow-x:auto;margin:14px 0 6px;
background:linear-gradient(to left,var(--paper) 40%,transparent) right/48px 100% no-repeat local,
linear-gradient(to left,var(--grid),transparent) right/16px 100% no-repeat scroll}
table{border-collapse:collapse;font-size:13px;line-height:1.4;font-variant-numeric:tabular-nums;min-width:100%}
th,td{padding:4px 0 4px 14px;text-align:right;white-space:nowrap;vertical-align:baseline}
th{font-weight:500;color:var(--muted);vertical-align:bottom;border-bottom:1px solid var(--axis)}
td{border-bottom:1px solid var(--grid)}
tr.next td{border-top:1px solid var(--axis)}
th:first-child,td:first-child{text-align:left;padding-left:0;position:sticky;left:0;background:var(--paper)}
td:first-child{white-space:normal;min-width:12em}
td:first-child svg{vertical-align:2px;margin-right:9px}
.unit{display:block;font-size:12px}
details{margin:6px 0}
summary{cursor:pointer;font-size:14px}
ul.keys{list-style:none;margin:6px 0 0;padding:0;display:flex;flex-wrap:wrap;gap:3px 18px;font-size:13.5px}
.keys svg{vertical-align:2px;margin-right:7px}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:20px 32px;align-items:start}
.maps{display:flex;flex-wrap:wrap;gap:10px 14px;margin:2px 0 18px}
.maps svg{max-width:100%;height:auto;flex:none}
.defs{position:absolute}
svg.legend{margin-bottom:18px}
"""

_DRAWINGS = """
svg.chart{display:block;width:100%;height:auto;overflow:hidden}
svg.legend{width:auto;max-width:100%}
svg text{fill:var(--muted);font:12px system-ui,-apple-system,"Segoe UI",sans-serif;font-variant-numeric:tabular-nums}
svg .small text{font-size:10px}
svg text.title{fill:var(--ink)}
svg text.marked{fill:var(--ink)}
svg.chart>text{paint-order:stroke;stroke:var(--paper);stroke-width:3px;stroke-linejoin:round}
.grid{stroke:var(--grid);fill:none;stroke-width:1}
.axis{stroke:var(--axis);fill:none;stroke-width:1}
.mark{stroke:var(--axis);fill:none;stroke-width:1;stroke-dasharray:2 2}
.leader{stroke:var(--axis);fill:none;stroke-width:.75;stroke-dasharray:1 2}
.line{stroke:var(--c);fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:butt}
.line.quiet{stroke-width:1;opacity:.45}
.faint{stroke:var(--c);fill:none;stroke-width:.75;opacity:.28;stroke-dasharray:none!important}
.level{stroke:var(--c);fill:none;stroke-width:1.25}
.level.chance{stroke-dasharray:2 3}
.dot{fill:var(--c);stroke:var(--c);stroke-width:1.5;stroke-dasharray:none!important}
.dot.hollow{fill:var(--paper)}
.bar{stroke:var(--c);fill:none;stroke-width:1;opacity:.65;stroke-dasharray:none!important}
.hatch{stroke:var(--axis);fill:none;stroke-width:1}
.none{fill:url(#hatch)}
.narrow{display:none!important}
"""

_NARROW = """
@media (max-width:719px){
main{padding:22px 16px 48px}
h1{font-size:21px}
h2{margin-top:38px}
.wide{display:none!important}
svg.narrow{display:block!important;max-width:520px}
ul.narrow{display:flex!important}
.pair{grid-template-columns:1fr}
.pair svg{max-width:520px}
.facts,.terms{grid-template-columns:1fr;gap:0}
.facts dd,.terms dd{margin-bottom:7px}
td:first-child{min-width:9.5em}
th,td{padding-left:13px}
}
"""

_PRINT = """
@page{margin:14mm}
@media print{
main{max-width:none;padding:0}
body{font-size:11pt}
h1{font-size:17pt}
h2{break-after:avoid}
figure,.maps,tr{break-inside:avoid}
.scroll{overflow:visible;background:none}
table{font-size:8.5pt}
th,td{padding-left:8px}
details::details-content{content-visibility:visible;display:block}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
"""
