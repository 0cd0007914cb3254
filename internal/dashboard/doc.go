// Package dashboard is the table of the panels of the Grafana dashboard, and writes deploy/grafana/waterwheel.json from it.
//
//	panels.go  the rows and their panels
//	layout.go  where each panel stands, and its JSON
//	model.go   the JSON model of a dashboard, as far as it is used
package dashboard
