// Package schemas reads schemas from a registry that speaks Confluent's protocol. It caches them, because an id never changes its
// meaning.
package schemas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/internal/measurement"
)

const (
	// DefaultTimeout bounds one question, including all its requests.
	DefaultTimeout = 5 * time.Second
	// maxAnswerBytes bounds the answer to one request. It has room for the longest schema, escaped as JSON.
	maxAnswerBytes = 4 << 20
	// shownBytes is how many bytes of an unexpected answer an error shows.
	shownBytes = 200
)

// guidsPath begins the path of a schema that a GUID names. Older registries do not have it.
const guidsPath = "/schemas/guids/"

// Error codes of the registry.
const (
	codeNoSubject = 40401
	codeNoVersion = 40402
	codeNoSchema  = 40403
)

// Options configure a Client.
type Options struct {
	// URLs are the servers of the registry. If one does not answer, the client asks the next.
	URLs []string
	// Username and Password, or Token, authenticate the client.
	Username, Password, Token string
	// Client makes the requests. Nil means http.DefaultClient.
	Client *http.Client
	// Timeout bounds one question. Zero means DefaultTimeout.
	Timeout time.Duration
	// Metrics count the requests. Nil means that they are not counted.
	Metrics *Metrics
}

// Client asks a registry. Its methods are safe for concurrent use.
type Client struct {
	o     Options
	first atomic.Int64 // index of the URL that answered last
	cache *cache
	// compiling is held while a schema is compiled, because a compilation may take much memory.
	compiling sync.Mutex
}

// Answer is what a registry says about an id.
type Answer struct {
	Schema measurement.Schema
	// Unknown means that the registry has no schema of this id.
	Unknown bool
	// KnowsTopic means that the registry has given this client a schema of the topic before.
	KnowsTopic bool
}

// New returns a client. It makes no request.
func New(o Options) *Client {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Client == nil {
		o.Client = http.DefaultClient
	}
	return &Client{o: o, cache: newCache()}
}

// Schema returns what the registry has under an id. A record of the topic names the id. An error is an outage. The registry did
// not answer the question, and may answer it later.
func (c *Client) Schema(ctx context.Context, topic string, id measurement.SchemaID) (Answer, error) {
	if s, found := c.cache.find(topic, id); found {
		return Answer{Schema: s, KnowsTopic: true}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	path := "/schemas/ids/" + strconv.FormatUint(uint64(id.Number), 10)
	if id.IsGUID {
		path = guidsPath + id.String()
	}
	found, err := c.get(ctx, path)
	switch {
	case err != nil:
		return Answer{}, err
	case found.Code == codeNoSchema:
		return Answer{Unknown: true, KnowsTopic: c.cache.knows(topic)}, nil
	case found.Code != 0:
		return Answer{}, found.failure(path)
	}
	s, err := c.assemble(ctx, found)
	if err != nil {
		return Answer{}, err
	}
	if s.Reason == "" {
		c.o.Metrics.keeps(c.cache.keep(topic, id, s))
	}
	return Answer{Schema: s, KnowsTopic: true}, nil
}

// answer is an answer of the registry. It holds a schema, or an error with its code.
type answer struct {
	Schema     string      `json:"schema"`
	Type       string      `json:"schemaType"`
	References []reference `json:"references"`

	Code    int    `json:"error_code"`
	Message string `json:"message"`

	tooLong bool
	from    string // the URL of the server
}

// failure returns the error of an answer with a code that does not say whether the registry has what a path names.
func (a *answer) failure(path string) error {
	return fmt.Errorf("%s answers the request %s with the error %d: %q%s", a.from, path, a.Code, clip(a.Message), wayOut(http.StatusNotFound, path))
}

// get asks the servers one after the other, and begins with the server that answered last. Each server gets a share of the
// remaining time, so that a server that does not answer leaves time for the next.
func (c *Client) get(ctx context.Context, path string) (answer, error) {
	var failed []error
	first := int(c.first.Load())
	for i := range c.o.URLs {
		at := (first + i) % len(c.o.URLs)
		a, err := c.getWithin(ctx, len(c.o.URLs)-i, c.o.URLs[at], path)
		c.o.Metrics.asked(a, err)
		if err == nil {
			c.first.Store(int64(at))
			return a, nil
		}
		if failed = append(failed, err); ctx.Err() != nil {
			break
		}
	}
	return answer{}, errors.Join(failed...)
}

// getWithin makes one request. It divides the remaining time into equal shares and uses one of them.
func (c *Client) getWithin(ctx context.Context, shares int, base, path string) (answer, error) {
	if deadline, bounded := ctx.Deadline(); bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(shares))
		defer cancel()
	}
	return c.getFrom(ctx, base, path)
}

// getFrom makes one request. An answer that does not come from a registry is an error, because a proxy may have sent it.
func (c *Client) getFrom(ctx context.Context, base, path string) (a answer, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(base, "/")+path, http.NoBody)
	if err != nil {
		return a, fmt.Errorf("asking %s: %w", base, err)
	}
	request.Header.Set("Accept", "application/vnd.schemaregistry.v1+json, application/json")
	switch {
	case c.o.Token != "":
		request.Header.Set("Authorization", "Bearer "+c.o.Token)
	case c.o.Username != "":
		request.SetBasicAuth(c.o.Username, c.o.Password)
	}
	response, err := c.o.Client.Do(request)
	if err != nil {
		return a, fmt.Errorf("asking the schema registry: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	if err != nil {
		return a, fmt.Errorf("asking %s: %w", base, err)
	}
	isOurs := response.StatusCode == http.StatusOK || response.StatusCode == http.StatusNotFound
	switch {
	case response.StatusCode == http.StatusOK && len(body) > maxAnswerBytes:
		return answer{tooLong: true}, nil
	case !isOurs:
		return a, fmt.Errorf("%s answers the request %s with status %s: %q%s", base, path, response.Status, clip(string(body)), wayOut(response.StatusCode, path))
	}
	err = json.Unmarshal(body, &a)
	if err != nil || response.StatusCode == http.StatusNotFound && a.Code == 0 || response.StatusCode == http.StatusOK && a.Schema == "" {
		return answer{}, fmt.Errorf("%s answers the request %s with status %s and %q, which is not an answer of a schema registry%s", base, path, response.Status, clip(string(body)), wayOut(response.StatusCode, path))
	}
	a.from = base
	if response.StatusCode == http.StatusOK {
		a.Code = 0
	}
	return a, nil
}

// wayOut returns the end of a sentence about the unexpected status of a path.
func wayOut(status int, path string) string {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return ": set SCHEMA_REGISTRY_USERNAME and SCHEMA_REGISTRY_PASSWORD, or SCHEMA_REGISTRY_TOKEN, of a user that may read schemas"
	case status == http.StatusNotFound && strings.HasPrefix(path, guidsPath):
		return ": this registry does not know schema GUIDs, or the path in SCHEMA_REGISTRY_URL is wrong. Correct the URL, or let the producers send schema ids instead of GUIDs"
	case status == http.StatusNotFound:
		return ": the path in SCHEMA_REGISTRY_URL may be wrong. Set the URL under which the registry answers " + path
	case status == http.StatusOK:
		return ": check SCHEMA_REGISTRY_URL"
	}
	return ""
}

func clip(text string) string {
	if len(text) > shownBytes {
		return strings.ToValidUTF8(text[:shownBytes], "") + "…"
	}
	return text
}

const (
	// maxCached and maxCachedBytes bound the cached schemas.
	maxCached      = 10_000
	maxCachedBytes = 64 << 20
)

// cache keeps schemas by their ids, and the topics for which a schema was found.
type cache struct {
	mu      sync.Mutex
	schemas map[measurement.SchemaID]measurement.Schema
	bytes   int
	topics  map[string]bool
}

func newCache() *cache {
	return &cache{schemas: map[measurement.SchemaID]measurement.Schema{}, topics: map[string]bool{}}
}

// find returns a cached schema.
func (c *cache) find(topic string, id measurement.SchemaID) (measurement.Schema, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, found := c.schemas[id]
	if found {
		c.topics[topic] = true
	}
	return s, found
}

// knows reports whether a schema of a topic was found before.
func (c *cache) knows(topic string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.topics[topic]
}

// keep caches a schema, and returns the number of cached schemas. If there is no room, it drops all schemas cached before. The
// client then requests them again.
func (c *cache) keep(topic string, id measurement.SchemaID, s measurement.Schema) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.topics[topic] = true
	size := sizeOf(&s)
	if len(c.schemas) >= maxCached || c.bytes+size > maxCachedBytes {
		clear(c.schemas)
		c.bytes = 0
	}
	if _, found := c.schemas[id]; !found {
		c.schemas[id], c.bytes = s, c.bytes+size
	}
	return len(c.schemas)
}

func sizeOf(s *measurement.Schema) int {
	size := len(s.Text)
	for _, reference := range s.References {
		size += len(reference)
	}
	return size
}

// Metrics count the requests to a registry.
type Metrics struct {
	requests *prometheus.CounterVec
	cached   prometheus.Gauge
}

// The results of a request.
const (
	found    = "found"
	notFound = "not_found"
	failed   = "failed"
)

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waterwheel_schema_requests_total", Help: "Requests to the schema registry, by result.",
		}, []string{"result"}),
		cached: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "waterwheel_schemas_cached", Help: "Schemas in memory, which are not requested again.",
		}),
	}
	for _, result := range []string{found, notFound, failed} {
		m.requests.WithLabelValues(result)
	}
	reg.MustRegister(m.requests, m.cached)
	return m
}

// asked counts a request. A nil Metrics counts nothing.
func (m *Metrics) asked(a answer, err error) {
	if m == nil {
		return
	}
	result := found
	switch {
	case err != nil:
		result = failed
	case a.Code != 0:
		result = notFound
	}
	m.requests.WithLabelValues(result).Inc()
}

// keeps sets the number of cached schemas. A nil Metrics does nothing.
func (m *Metrics) keeps(n int) {
	if m != nil {
		m.cached.Set(float64(n))
	}
}
