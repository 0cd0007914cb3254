// Package chart renders the chart of deploy/chart as Helm does. Its tests check that Kubernetes, the Prometheus Operator and KEDA
// accept the objects.
package chart

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

// Namespace is the namespace for which Render renders the objects.
const Namespace = "default"

// Render renders the chart in a folder with these values, and returns the objects by the names of their templates. It fails if
// the values contradict the chart's schema.
func Render(dir string, values map[string]any) (map[string]string, error) {
	loaded, err := loader.Load(dir)
	if err != nil {
		return nil, fmt.Errorf("loading the chart: %w", err)
	}
	release := common.ReleaseOptions{Name: "waterwheel", Namespace: Namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(loaded, values, release, common.DefaultCapabilities)
	if err != nil {
		return nil, fmt.Errorf("checking the values: %w", err)
	}
	rendered, err := engine.Render(loaded, all)
	if err != nil {
		return nil, fmt.Errorf("rendering the chart: %w", err)
	}
	objects := map[string]string{}
	for name, text := range rendered {
		if strings.HasSuffix(name, ".yaml") && strings.TrimSpace(text) != "" {
			objects[path.Base(name)] = strings.TrimSpace(text) + "\n"
		}
	}
	return objects, nil
}

// ofHelm matches the labels of objects that Helm manages, and the namespace, because users of kubectl choose their own.
var ofHelm = regexp.MustCompile(`(?m)^ *(?:helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n|^  namespace: ` + Namespace + `\n`)

// Manifests returns the files for kubectl, which hold the consumers and the objects for monitoring.
func Manifests(dir string, values map[string]any) (map[string]string, error) {
	objects, err := Render(dir, values)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, template := range slices.Sorted(maps.Keys(objects)) {
		file := "waterwheel.yaml"
		if slices.Contains([]string{"dashboard.yaml", "prometheusrule.yaml", "servicemonitor.yaml"}, template) {
			file = "monitoring.yaml"
		}
		if files[file] == "" {
			files[file] = "# Rendered by \"make manifests\" from deploy/chart with values.yaml of this folder.\n"
		}
		files[file] += "---\n" + ofHelm.ReplaceAllString(objects[template], "")
	}
	return files, nil
}
