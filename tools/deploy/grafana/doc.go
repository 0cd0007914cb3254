// Package grafana tests that Grafana's own types accept the dashboard of deploy/grafana.
package grafana
