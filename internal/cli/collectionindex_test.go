package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/timeseries"
)

func extDocument(t *testing.T, s string) (d bson.Raw) {
	t.Helper()
	if err := bson.UnmarshalExtJSON([]byte(s), false, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestIndexFlagsBecomeOptions(t *testing.T) {
	index, err := indexFlags{
		name: "n", hidden: true, partial: `{"meta.a": 1}`, options: `{"collation": {"locale": "en"}}`, expireAfter: time.Hour,
	}.index(`{"meta.b": 1, "time": -1}`)
	want := `{"collation": {"locale": "en"},"name": "n","hidden": true,"partialFilterExpression": {"meta.a": {"$numberInt":"1"}},"expireAfterSeconds": {"$numberLong":"3600"}}`
	if err != nil || index.Options.String() != want || index.Keys.String() != `{"meta.b": {"$numberInt":"1"},"time": {"$numberInt":"-1"}}` {
		t.Errorf("%v %v %v", index.Keys, index.Options, err)
	}
	if index, err = (indexFlags{}).index(`{"time": 1}`); err != nil || index.Options != nil {
		t.Errorf("%v %v", index.Options, err)
	}
}

func TestIndexCommandLines(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"create-index"}, "the keys of an index"},
		{[]string{"create-index", "{meta.a: 1}"}, `"{meta.a: 1}" is not a JSON object`},
		{[]string{"create-index", `{"meta.a": 1} x`}, `is not a JSON object (invalid character 'x'`},
		{[]string{"create-index", `{"a": 1}`, "--partial", "x"}, `--partial: "x" is not a JSON object`},
		{[]string{"create-index", `{"a": 1}`, "--options", "[1]"}, `--options: "[1]" is not a JSON object`},
		{[]string{"create-index", `{"a": 1}`, "--expire-after", "1500ms"}, "--expire-after is 1.5s"},
		{[]string{"create-index", `{"a": 1}`, "--name", "x", "--options", `{"name": "y"}`}, "name is given twice"},
		{[]string{"drop-index"}, "the name of an index"},
		{[]string{"hide-index", "a", "b"}, "the name of an index"},
		{[]string{"unhide-index", ""}, "the name of an index"},
		{[]string{"indexes", "all"}, "takes no arguments"},
	} {
		if code, _, stderr := try(t, settings(), nil, append([]string{"collection"}, c.args...)...); code != exitUsage || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit code %d, %q", c.args, code, stderr)
		}
	}
}

func TestIndexesAreListed(t *testing.T) {
	o, err := timeseries.Options{TimeField: "time", MetaField: "meta", ExpireAfterSeconds: 7200}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	index := func(name string, kind collection.IndexKind, user, options string) collection.Index {
		i := collection.Index{Name: name, Kind: kind, Bytes: -1, Uses: -1, Buckets: timeseries.Index{Keys: extDocument(t, `{"on.buckets": 1}`)}}
		if user != "" {
			i.User = timeseries.Index{Keys: extDocument(t, user), Options: extDocument(t, options)}
		}
		return i
	}
	user := index("by sensor\x1b[2J", collection.IndexOfUser, `{"meta.sensor":1}`, `{"partialFilterExpression": {"meta.a": 1}}`)
	user.Bytes, user.Uses, user.Since, user.Hidden = 4096, 12, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), true
	asked := index("site", collection.IndexOfUser, `{"meta.site":1,"time":1}`, `{"expireAfterSeconds": 60}`)
	asked.Asked, asked.Building = true, true
	list := collection.IndexList{
		Options: o, Indexes: []collection.Index{
			index("_id_", collection.IndexOfID, "", ""), index("e", collection.IndexOfExpiry, `{"time":1}`, `{}`), user, asked,
			index("f", collection.IndexForeign, "", ""),
		},
		Gone: []string{"former"}, NoSizes: errors.New("no sizes today"), NoUses: errors.New("no uses either"),
	}
	var out bytes.Buffer
	printIndexes(&out, []indexesView{newIndexesView("events", list, []string{"meta.zone"})})
	printed := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"Indexes of events NAME KEYS OWNER SIZE USES SINCE STATE",
		`_id_ {"on.buckets":1} MongoDB – – – –`,
		`e {"time":1} waterwheel (expiry) – – – deletes measurements after 2h`,
		`by sensor\x1b[2J {"meta.sensor":1} user 4.0 KiB 12 2026-01-02T03:04:05.000Z hidden, only {"meta.a":1}`,
		`site {"meta.site":1,"time":1} META_INDEXES – – – being built, deletes measurements after 1m`,
		`f {"on.buckets":1} foreign, on buckets – – – –`,
		"Sizes are not known: no sizes today.", "Uses are not known: no uses either.",
		"META_INDEXES asks for meta.zone, but no index supports queries on it: `waterwheel init` creates one.",
		"META_INDEXES no longer asks for site: `waterwheel collection drop-index site` drops it.",
		"The index former no longer exists, but its definition is stored",
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}

// TestMadeIndexesAreTold checks the messages about their further effects.
func TestMadeIndexesAreTold(t *testing.T) {
	view := newIndexView(collection.Index{
		Name: "device_1", Kind: collection.IndexOfUser, Bytes: -1, Uses: -1,
		Buckets: timeseries.Index{Keys: extDocument(t, `{"control.min.device": 1, "control.max.device": 1}`)}, User: timeseries.Index{Keys: extDocument(t, `{"device": 1}`)},
	})
	var out bytes.Buffer
	madeIndexes{{Series: "a", Made: true, Index: view, Doubts: []string{"no measurement has device", "x\x1b"}}, {Series: "b", Index: view}}.print(&out)
	want := `a: created the index device_1 on {"device":1}; on the buckets its keys are {"control.min.device":1,"control.max.device":1}` + "\n" +
		"a: note: no measurement has device.\na: note: x\\x1b.\n" + `b: the index device_1 on {"device":1} exists already. Nothing was changed.` + "\n"
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}

func TestIndexChangesInSeveralCollections(t *testing.T) {
	none := &collection.NoIndexError{Name: "i"}
	for name, c := range map[string]struct {
		errs  map[string]error
		quiet bool // nothing changes
		says  string
		fails string
	}{
		"all":            {says: "a: the index i is dropped.\nb: the index i is dropped.\n"},
		"one":            {errs: map[string]error{"a": none}, says: "a: the index i does not exist.\nb: the index i is dropped.\n"},
		"none":           {errs: map[string]error{"a": none, "b": none}, fails: `dropping the index of b: there is no index "i"`},
		"refused":        {errs: map[string]error{"b": errors.New("it is needed: so it is")}, says: "a: the index i is dropped.\n", fails: "so it is"},
		"no time series": {errs: map[string]error{"a": collection.ErrNotSetUp}, fails: "there is no time series a yet"},
		"already":        {quiet: true, says: "a: the index i is dropped already. Nothing was changed.\nb: the index i is dropped already. Nothing was changed.\n"},
	} {
		var out bytes.Buffer
		p := &Program{Stdout: &out, output: "table"}
		err := p.changeIndex([]string{"a", "b"}, "i", "dropping", "dropped", func(series string) (bool, error) { return !c.quiet, c.errs[series] })
		if out.String() != c.says || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
	}
}
