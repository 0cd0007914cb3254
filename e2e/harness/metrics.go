package harness

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Get requests one of the process's HTTP endpoints and returns the status and the body.
func (c *Consumer) Get(ctx context.Context, path string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.address+path, http.NoBody)
	if err != nil {
		return 0, "", fmt.Errorf("asking %s: %w", path, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("asking %s: %w", path, err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, "", fmt.Errorf("reading the answer of %s: %w", path, err)
	}
	return response.StatusCode, string(b), nil
}

// Metrics holds the metric families of one scrape of /metrics.
type Metrics map[string]*dto.MetricFamily

// Metrics scrapes /metrics.
func (c *Consumer) Metrics(ctx context.Context) (Metrics, error) {
	status, body, err := c.Get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("asking /metrics: status %d", status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("parsing /metrics: %w", err)
	}
	return families, nil
}

// Sum adds up the values of a metric over all series that have the given labels, which are pairs of name and value. For a
// histogram it adds up the sums. A missing metric counts as 0.
func (m Metrics) Sum(name string, labels ...string) float64 {
	return m.total(name, labels, func(metric *dto.Metric) float64 {
		return metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + metric.GetHistogram().GetSampleSum()
	})
}

// Count returns the number of observations of a histogram over all series that have the given labels, which are pairs of name and
// value.
func (m Metrics) Count(name string, labels ...string) float64 {
	return m.total(name, labels, func(metric *dto.Metric) float64 { return float64(metric.GetHistogram().GetSampleCount()) })
}

func (m Metrics) total(name string, labels []string, value func(*dto.Metric) float64) float64 {
	sum := 0.0
	for _, metric := range m[name].GetMetric() {
		has := map[string]string{}
		for _, l := range metric.GetLabel() {
			has[l.GetName()] = l.GetValue()
		}
		counts := true
		for i := 0; i+1 < len(labels); i += 2 {
			counts = counts && has[labels[i]] == labels[i+1]
		}
		if counts {
			sum += value(metric)
		}
	}
	return sum
}
