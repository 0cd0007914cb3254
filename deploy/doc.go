// Package deploy holds what operates the consumer: rules and alerts for Prometheus, a dashboard for Grafana, a unit for systemd,
// and a chart for Kubernetes with manifests made from it. The package itself is only the test that these files fit the program;
// what needs more than the standard library to be tested is tested in tools/deploy.
package deploy
