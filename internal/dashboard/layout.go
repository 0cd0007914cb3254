package dashboard

import (
	"encoding/json"
	"strings"
)

// This is the grid of Grafana. A line of panels has lineWidth columns.
const (
	lineWidth    = 24
	headingHigh  = 1
	numberHigh   = 4
	graphHigh    = 8
	schemaOfThis = 39 // the version of the model, of Grafana 11 and later
)

// prometheus is the data source that the reader chooses.
var prometheus = source{Type: "prometheus", UID: "${datasource}"}

// JSON returns the dashboard, deploy/grafana/waterwheel.json.
func JSON() string {
	text, err := json.MarshalIndent(dashboard(), "", "  ")
	if err != nil {
		panic("waterwheel: a dashboard without a JSON form: " + err.Error())
	}
	return string(text) + "\n"
}

func dashboard() model {
	return model{
		UID: "waterwheel", Title: "waterwheel",
		Description: "Measurements from Kafka to MongoDB, each exactly once. Made by make docs from internal/dashboard/panels.go.",
		Tags:        []string{"kafka", "mongodb", "waterwheel"}, Timezone: "browser", Editable: true, GraphTooltip: 1,
		Time: timeRange{"now-1h", "now"}, Refresh: "30s", SchemaVersion: schemaOfThis,
		Templating: templating{variables()}, Annotations: annotations{annotated()}, Panels: placed(rows),
	}
}

func variables() []variable {
	values := func(name, query string) variable {
		return variable{
			Name: name, Label: name, Type: "query", Query: valuesQuery{query, name}, Datasource: &prometheus,
			Refresh: 2, Sort: 1, Multi: true, IncludeAll: true, AllValue: ".+", Current: &choice{"All", "$__all"},
		}
	}
	return []variable{
		{Name: "datasource", Label: "data source", Type: "datasource", Query: "prometheus"},
		values("job", `label_values(waterwheel_build_info, job)`),
		values("topic", `label_values(waterwheel_fetch_paused{job=~"$job"}, topic)`),
	}
}

func annotated() []annotation {
	var all []annotation
	for _, e := range events {
		all = append(all, annotation{
			Name: e.name, Enable: true, Datasource: prometheus, Expr: expand(e.expression), IconColor: e.color,
			TitleFormat: e.name, TextFormat: e.text,
		})
	}
	return all
}

// expand inserts the matchers of the variables into a query.
func expand(query string) string {
	return strings.NewReplacer("%topic%", `job=~"$job", topic=~"$topic"`, "%job%", `job=~"$job"`).Replace(query)
}

// placed sets the position of each panel, from left to right. Each line has panels of one height.
func placed(rows []row) []drawn {
	var all []drawn
	y := 0
	for _, r := range rows {
		all = append(all, drawn{
			ID: len(all) + 1, Type: "row", Title: r.title, GridPos: position{0, y, lineWidth, headingHigh},
			Collapsed: new(bool), Panels: &[]drawn{},
		})
		y += headingHigh
		x := 0
		for _, p := range r.panels {
			one := p.draw()
			one.ID, one.GridPos = len(all)+1, position{x, y, p.width, p.high()}
			all = append(all, one)
			if x += p.width; x >= lineWidth {
				x, y = 0, y+p.high()
			}
		}
	}
	return all
}

func (p *panel) high() int {
	if p.kind == number {
		return numberHigh
	}
	return graphHigh
}

func (p *panel) draw() drawn {
	d := drawn{Title: p.title, Description: p.about, Datasource: &prometheus}
	for i, q := range p.queries {
		d.Targets = append(d.Targets, target{
			RefID: string(rune('A' + i)), Datasource: prometheus, Expr: expand(q.expression), LegendFormat: q.legend,
			Range: p.kind != number, Instant: p.kind == number,
		})
	}
	d.FieldConfig = &fieldConfig{
		Defaults:  fieldDefaults{Unit: p.unit, Min: new(float64), Thresholds: thresholds{"absolute", p.steps()}},
		Overrides: []override{},
	}
	if p.kind == number {
		d.Type = "stat"
		d.Options = numberOptions{
			ReduceOptions: reduceOptions{Calcs: []string{"lastNotNull"}}, ColorMode: "value", GraphMode: "none", TextMode: "auto",
			JustifyMode: "auto", Orientation: "auto", WideLayout: true, PercentChangeColorMode: "standard",
		}
		return d
	}
	d.Type = "timeseries"
	d.Options = graphOptions{legend{"list", "bottom", true, []string{}}, tooltip{"multi", "desc"}}
	d.FieldConfig.Defaults.Custom = &drawing{FillOpacity: 10, LineWidth: 1, Stacking: stacking{"none", "A"}}
	if p.kind == stacked {
		d.FieldConfig.Defaults.Custom.FillOpacity, d.FieldConfig.Defaults.Custom.Stacking.Mode = 40, "normal"
		d.FieldConfig.Overrides = append(d.FieldConfig.Overrides, apart("budget"))
	}
	return d
}

// apart makes a series of a stack a line outside the stack.
func apart(name string) override {
	return override{matcher{"byName", name}, []property{{"custom.stacking", stacking{"none", "A"}}, {"custom.fillOpacity", 0}}}
}

func (p *panel) steps() []threshold {
	steps := []threshold{{Color: "green"}}
	if p.warn > 0 {
		steps = append(steps, threshold{"orange", &p.warn})
	}
	if p.alarm > 0 {
		steps = append(steps, threshold{"red", &p.alarm})
	}
	return steps
}
