// Package grafana is only the test that Grafana's own types take the dashboard of deploy/grafana.
package grafana
