// Package dashboard is the table of the panels of the Grafana dashboard. It generates deploy/grafana/waterwheel.json.
//
//	panels.go  the rows and their panels
//	layout.go  the position of each panel, and its JSON
//	model.go   the JSON model of a dashboard, as far as it is used
package dashboard
