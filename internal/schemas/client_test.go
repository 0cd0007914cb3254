package schemas

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"waterwheel/internal/measurement"
)

// registry is a server that answers each path with a status and a body.
type registry struct {
	*httptest.Server
	answers map[string]string // by path, as in "200 {…}"
	asked   []string
	auth    string
}

func newRegistry(t *testing.T, answers map[string]string) *registry {
	t.Helper()
	r := &registry{answers: answers}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.asked, r.auth = append(r.asked, request.URL.EscapedPath()), request.Header.Get("Authorization")
		var status int
		text, found := r.answers[request.URL.EscapedPath()]
		if !found {
			text = `404 {"error_code":40403,"message":"Schema not found"}`
		}
		_, _ = fmt.Sscanf(text, "%d", &status)
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, text[4:])
	}))
	t.Cleanup(r.Close)
	return r
}

func number(n uint32) measurement.SchemaID { return measurement.SchemaID{Number: n} }

// TestSchemaIsFoundOnce checks that a schema is found by number and by GUID, with its references, and that the registry is asked
// only once.
func TestSchemaIsFoundOnce(t *testing.T) {
	guid := measurement.SchemaID{IsGUID: true, GUID: [16]byte{1}}
	r := newRegistry(t, map[string]string{
		"/schemas/ids/7":                                      `200 {"schema":"\"long\"","references":[{"name":"B","subject":"b/x","version":3},{"name":"C","subject":"c","version":1}]}`,
		"/subjects/b%2Fx/versions/3":                          `200 {"schema":"\"B\"","schemaType":"AVRO","id":8,"references":[{"subject":"c","version":1}]}`,
		"/subjects/c/versions/1":                              `200 {"schema":"\"C\""}`,
		"/schemas/guids/01000000-0000-0000-0000-000000000000": `200 {"schema":"\"int\""}`,
	})
	c := New(Options{URLs: []string{r.URL + "/"}, Username: "u", Password: "p"})
	for range 2 {
		a, err := c.Schema(t.Context(), "t", number(7))
		if err != nil || a.Schema.Text != `"long"` || strings.Join(a.Schema.References, " ") != `"C" "B"` || !a.KnowsTopic || a.Unknown {
			t.Errorf("%+v %v", a, err)
		}
	}
	if a, err := c.Schema(t.Context(), "t", guid); err != nil || a.Schema.Text != `"int"` {
		t.Errorf("by GUID: %+v %v", a, err)
	}
	if len(r.asked) != 4 || r.auth != "Basic dTpw" {
		t.Errorf("asked for %q with %q", r.asked, r.auth)
	}
	if a, err := c.Schema(t.Context(), "t", number(9)); err != nil || !a.Unknown || !a.KnowsTopic {
		t.Errorf("an id that is not there: %+v %v", a, err)
	}
	if a, err := c.Schema(t.Context(), "other", number(9)); err != nil || !a.Unknown || a.KnowsTopic {
		t.Errorf("the same of another topic: %+v %v", a, err)
	}
}

// TestAnswersThatMeanAnOutage checks that an answer that may be different later is an error, and says nothing about the schema.
func TestAnswersThatMeanAnOutage(t *testing.T) {
	for name, answer := range map[string]string{
		"busy": "503 busy", "internal": `500 {"error_code":50001,"message":"x"}`, "timeout": "408 x", "early": "425 x", "too many": "429 x", "not logged in": "401 x",
		"forbidden": `403 {"error_code":40301}`, "no JSON": "200 <html>", "another 404": "404 <html>", "404 of another program": `404 {"detail":"x"}`, "no schema": "200 {}",
		"another code": `404 {"error_code":40499,"message":"x"}`,
	} {
		r := newRegistry(t, map[string]string{"/schemas/ids/1": answer})
		if a, err := New(Options{URLs: []string{r.URL}, Token: "s"}).Schema(t.Context(), "t", number(1)); err == nil {
			t.Errorf("%s: %+v", name, a)
		} else if r.auth != "Bearer s" || strings.Contains(err.Error(), "Bearer") {
			t.Errorf("%s: %v with %q", name, err, r.auth)
		}
	}
	away := newRegistry(t, nil)
	away.Close()
	there := newRegistry(t, map[string]string{"/schemas/ids/1": `200 {"schema":"\"int\""}`})
	c := New(Options{URLs: []string{away.URL, there.URL}})
	for id := range uint32(2) {
		if _, err := c.Schema(t.Context(), "t", number(id)); err != nil {
			t.Errorf("with the second server: %v", err)
		}
	}
	if c.first.Load() != 1 {
		t.Error("the server that answers is not asked first")
	}
	stopped := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stopped }))
	defer hanging.Close()
	defer close(stopped)
	if a, err := New(Options{URLs: []string{hanging.URL, there.URL}, Timeout: time.Second}).Schema(t.Context(), "t", number(1)); err != nil || a.Schema.Text != `"int"` {
		t.Errorf("beside a server that does not answer: %+v %v", a, err)
	}
	if _, err := New(Options{URLs: []string{away.URL}}).Schema(t.Context(), "t", number(1)); err == nil {
		t.Error("a server that is away answers")
	}
}

// TestPathThatTheServerDoesNotHave checks that the error of a 404 names the address, and says what to do. A registry that knows no
// GUIDs answers so, and a wrong path does.
func TestPathThatTheServerDoesNotHave(t *testing.T) {
	const guid = "/schemas/guids/01000000-0000-0000-0000-000000000000"
	byGUID := measurement.SchemaID{IsGUID: true, GUID: [16]byte{1}}
	reference := `200 {"schema":"\"int\"","references":[{"subject":"a","version":1}]}`
	for _, answer := range []string{`404 {"error_code":404,"message":"HTTP 404 Not Found"}`, "404 page not found", `404 {"detail":"x"}`} {
		r := newRegistry(t, map[string]string{"/schemas/ids/1": answer, guid: answer, "/schemas/ids/2": reference, "/subjects/a/versions/1": answer})
		for path, id := range map[string]measurement.SchemaID{guid: byGUID, "/schemas/ids/1": number(1), "/subjects/a/versions/1": number(2)} {
			_, err := New(Options{URLs: []string{r.URL}}).Schema(t.Context(), "t", id)
			if err == nil || !strings.Contains(err.Error(), r.URL+" answers the request "+path) || !strings.Contains(err.Error(), "the path in SCHEMA_REGISTRY_URL") ||
				strings.Contains(err.Error(), "does not know schema GUIDs, or") != id.IsGUID {
				t.Errorf("%s: %v", answer, err)
			}
		}
	}
}

// TestSchemasThatNoRecordCanHave checks that such schemas are bad for good.
func TestSchemasThatNoRecordCanHave(t *testing.T) {
	loop := `200 {"schema":"\"int\"","references":[{"subject":"a","version":1}]}`
	many := map[string]string{}
	for i := range 150 {
		many[fmt.Sprintf("/subjects/s%d/versions/1", i)] = fmt.Sprintf(`200 {"schema":"\"int\"","references":[{"subject":"s%d","version":1}]}`, i+1)
	}
	many["/schemas/ids/1"] = `200 {"schema":"\"int\"","references":[{"subject":"s0","version":1}]}`
	for says, answers := range map[string]map[string]string{
		`its type is "THRIFT"`:     {"/schemas/ids/1": `200 {"schema":"x","schemaType":"THRIFT"}`},
		"more than 1048576 bytes":  {"/schemas/ids/1": `200 {"schema":"` + strings.Repeat("x", 2<<20) + `"}`},
		"than 1048576 bytes":       {"/schemas/ids/1": `200 {"schema":"` + strings.Repeat("x", 5<<20) + `"}`},
		`version 2 of "gone"`:      {"/schemas/ids/1": `200 {"schema":"x","references":[{"subject":"gone","version":2}]}`, "/subjects/gone/versions/2": `404 {"error_code":40401}`},
		"more than 100 references": many,
	} {
		r := newRegistry(t, answers)
		a, err := New(Options{URLs: []string{r.URL}}).Schema(t.Context(), "t", number(1))
		if err != nil || a.Schema.Reason != measurement.BadSchema || !strings.Contains(a.Schema.Detail, says) {
			t.Errorf("%+v %v, want %s", a.Schema.Detail, err, says)
		}
	}
	r := newRegistry(t, map[string]string{"/schemas/ids/1": loop, "/subjects/a/versions/1": loop})
	if a, err := New(Options{URLs: []string{r.URL}}).Schema(t.Context(), "t", number(1)); err != nil || len(a.Schema.References) != 1 {
		t.Errorf("a schema that refers to itself: %+v %v", a, err)
	}
}

// TestCacheIsBounded checks that the cache drops schemas when it exceeds its bound on bytes or on their number.
func TestCacheIsBounded(t *testing.T) {
	c := newCache()
	large := measurement.Schema{Text: strings.Repeat("x", 1<<20)}
	for i := range uint32(100) {
		c.keep("t", number(i), large)
		if c.bytes > maxCachedBytes {
			t.Fatalf("%d bytes", c.bytes)
		}
	}
	for i := range uint32(3 * maxCached) {
		c.keep("t", number(i), measurement.Schema{Text: "x"})
		if len(c.schemas) > maxCached {
			t.Fatalf("%d schemas", len(c.schemas))
		}
	}
	if _, found := c.find("t", number(3*maxCached-1)); !found {
		t.Error("the last is not kept")
	}
}
