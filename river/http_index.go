package river

import (
	"html/template"
	"net/http"
	"path"

	"github.com/go-kit/log/level"
)

const indexText = `<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>Headwater</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { border-bottom: 1px solid #ccc; padding: .3rem .8rem .3rem 0; text-align: left; vertical-align: top }
.unhealthy, .exited { color: #b00020; font-weight: bold }
</style>
<h1>Headwater</h1>
<table>
<tr><th>Component<th>Health<th>Message<th>Pages
{{range .Components}}<tr><td><a href="{{$.API}}/{{.LocalID}}">{{.LocalID}}</a>
<td class="{{.Health.State}}">{{.Health.State}}<td>{{.Health.Message}}
<td>{{if .Pages}}<a href="{{.Pages}}">open</a>{{end}}
{{else}}<tr><td colspan="4">No components are loaded.
{{end}}</table>
<p><a href="/metrics">metrics</a> · <a href="/-/ready">ready</a> · <a href="/-/healthy">healthy</a>
</html>
`

type indexRow struct {
	ComponentInfo
	Pages string // what the component serves itself, or ""
}

// serveIndex serves a page that lists the components and leads to what they
// serve.
func (r *Runtime) serveIndex(prefix string) http.HandlerFunc {
	page := template.Must(template.New("index").Parse(indexText))
	return func(w http.ResponseWriter, _ *http.Request) {
		var rows []indexRow
		for _, info := range r.Components() {
			row := indexRow{ComponentInfo: info}
			if r.handler(info.LocalID) != nil {
				row.Pages = componentPath + info.LocalID + "/"
			}
			rows = append(rows, row)
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		err := page.Execute(w, map[string]interface{}{
			"Components": rows,
			"API":        path.Join(prefix, "api/v0/web/components"),
		})
		if err != nil {
			level.Debug(r.logger).Log("msg", "failed to write the index page", "err", err)
		}
	}
}
