package schemas

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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

// reference names a schema to which another one refers.
type reference struct {
	Name    string `json:"name"` // in Protobuf, the path that is imported
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

// The types of schemas that a registry names. Registries omit the type of Avro schemas.
const (
	typeAvro     = "AVRO"
	typeProtobuf = "PROTOBUF"
	typeJSON     = "JSON"
)

// assemble makes the schema of an answer, with the schemas to which it refers. The schema's Reason says why records cannot be
// read by it.
func (c *Client) assemble(ctx context.Context, a answer) (measurement.Schema, error) {
	w := walk{client: c, of: cmp.Or(a.Type, typeAvro), seen: map[reference]bool{}, left: measurement.MaxSchemaBytes}
	if w.of == typeJSON {
		return measurement.Schema{Format: measurement.JSON}, nil // decoders do not need its text
	}
	err := w.take(ctx, a, reference{}, 0)
	var s measurement.Schema
	if err == nil {
		s, err = w.schema(ctx)
	}
	if bad, ok := errors.AsType[*badError](err); ok {
		return measurement.Schema{Reason: measurement.BadSchema, Detail: bad.Error()}, nil
	}
	return s, err
}

// badError says why records cannot be read by a schema.
type badError struct{ text string }

func (e *badError) Error() string { return e.text }

// walk collects a schema and its references. Each schema follows the schemas to which it refers.
type walk struct {
	client *Client
	of     string // the type of all these schemas
	seen   map[reference]bool
	texts  []source
	left   int // bytes that they may still take
}

// source is the text of a schema, and the reference to it. The reference is empty for the schema itself.
type source struct {
	reference
	text string
}

func (w *walk) take(ctx context.Context, a answer, as reference, depth int) error {
	switch of := cmp.Or(a.Type, typeAvro); {
	case a.tooLong || len(a.Schema) > w.left:
		return &badError{fmt.Sprintf("it has more than %d bytes, including its references", measurement.MaxSchemaBytes)}
	case of != typeAvro && of != typeProtobuf:
		return &badError{fmt.Sprintf("its type is %q, but only Avro, Protobuf and JSON Schema are supported", clip(of))}
	case of != w.of:
		return &badError{fmt.Sprintf("its type is %s, but it refers to version %d of %q, whose type is %s", w.of, as.Version, clip(as.Subject), of)}
	case depth > measurement.MaxReferences:
		return &badError{fmt.Sprintf("its references are nested more than %d levels deep", measurement.MaxReferences)}
	}
	w.left -= len(a.Schema)
	for _, r := range a.References {
		one := r
		if w.of == typeAvro {
			one.Name = "" // Avro's types have their own names
		}
		if w.seen[one] {
			continue
		}
		w.seen[one] = true
		if len(w.seen) > measurement.MaxReferences {
			return &badError{fmt.Sprintf("it has more than %d references", measurement.MaxReferences)}
		}
		path := fmt.Sprintf("/subjects/%s/versions/%d", url.PathEscape(r.Subject), r.Version)
		found, err := w.client.get(ctx, path)
		switch {
		case err != nil:
			return err
		case found.Code == codeNoSubject || found.Code == codeNoVersion || found.Code == codeNoSchema:
			return &badError{fmt.Sprintf("it refers to version %d of %q, which the registry does not have", r.Version, clip(r.Subject))}
		case found.Code != 0:
			return found.failure(path)
		}
		if err := w.take(ctx, found, r, depth+1); err != nil {
			return err
		}
	}
	w.texts = append(w.texts, source{as, a.Schema})
	return nil
}

// schema returns the collected schemas in the form that decoders take.
func (w *walk) schema(ctx context.Context) (measurement.Schema, error) {
	last := len(w.texts) - 1
	if w.of == typeProtobuf {
		w.client.compiling.Lock()
		defer w.client.compiling.Unlock()
		descriptors, err := compile(ctx, w.texts[last].text, w.texts[:last])
		return measurement.Schema{Format: measurement.Protobuf, Text: descriptors}, err
	}
	s := measurement.Schema{Format: measurement.Avro, Text: w.texts[last].text}
	for _, one := range w.texts[:last] {
		s.References = append(s.References, one.text)
	}
	return s, nil
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
