// Package deploy holds the files for operating the consumer: rules and alerts for Prometheus, a dashboard for Grafana, a unit for
// systemd, and a chart for Kubernetes with manifests made from it. The package itself is only the test that these files fit the
// program. Tests that need more than the standard library are in tools/deploy.
package deploy
