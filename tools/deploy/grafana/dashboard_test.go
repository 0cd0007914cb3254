package grafana

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// TestGrafanaKnowsEveryField checks that the dashboard decodes strictly into Grafana's types, including those of its panels and
// queries. It also checks that an unknown field is found in each query and in each graph.
func TestGrafanaKnowsEveryField(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/grafana/waterwheel.json")
	if err != nil {
		t.Fatal(err)
	}
	runtime := cog.NewRuntime()
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	runtime.RegisterPanelcfgVariant(stat.VariantConfig())
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())
	if faults := decode(text); faults != "" {
		t.Error(faults)
	}
	for field, least := range map[string]int{"legendFormat": 45, "fillOpacity": 25, "wideLayout": 6, "gridPos": 35, "templating": 1} {
		wrong := bytes.ReplaceAll(text, []byte(`"`+field+`":`), []byte(`"unknown":`))
		if n := strings.Count(decode(wrong), "unexpected field 'unknown'"); n < least {
			t.Errorf("without %s %d faults are found, want %d at least", field, n, least)
		}
	}
}

// decode returns the faults of a dashboard, one per line. If there are none, the decoder returns an empty list as its error.
func decode(text []byte) string {
	//lint:ignore SA1019 Every Grafana imports the first version of the model.
	var d dashboard.Dashboard //nolint:staticcheck // as above
	if err := d.UnmarshalJSONStrict(text); err != nil {
		return err.Error()
	}
	return ""
}
