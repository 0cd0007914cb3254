package measurement

import (
	"strings"
	"testing"
)

func TestPathsThatDoNotGoTogether(t *testing.T) {
	meta := func(parts ...string) Options { return Options{TimeField: "time", MetaFields: parts} }
	with := func(o Options, change func(*Options)) Options {
		change(&o)
		return o
	}
	dropping := func(paths ...string) Options {
		return Options{TimeField: "time", MetaField: "meta", Drop: paths}
	}
	for _, test := range []struct {
		want    string
		options Options
	}{
		{`EVENT_DROP=b.host: is the same field as EVENT_META_FIELDS`, Options{MetaFields: []string{"site=b.host"}, Drop: []string{"b.host"}}},
		{`EVENT_META_FIELDS=b.host: has the same name (host) in meta as a.host: give one of them another name, such as other=b.host`, meta("a.host", "b.host")},
		{`EVENT_META_FIELDS=x=a: has the same name (x) in meta as x`, meta("x", "x=a")},
		{`EVENT_META_FIELDS=y=a: names a field that is already named`, meta("a", "y=a")},
		{`EVENT_META_FIELDS=a.b: lies inside EVENT_META_FIELDS=a`, meta("a", "a.b")},
		{`EVENT_META_FIELDS=$x=a: gives a part of meta the name "$x"`, meta("$x=a")},
		{`EVENT_META_FIELDS=x.y=a: gives a part of meta the name "x.y"`, meta("x.y=a")},
		{`EVENT_META_FIELDS==a: gives a part of meta the name ""`, meta("=a")},
		{`EVENT_META_FIELDS=x=: names no path`, meta("x=")},
		{`EVENT_META_FIELDS=x=a..b: not a dotted path`, meta("x=a..b")},
		{`EVENT_META_FIELDS=x=time: is the same field as EVENT_TIME_FIELD`, meta("x=time")},
		{`EVENT_DROP=time: is the same field as EVENT_TIME_FIELD`, dropping("time")},
		{`EVENT_DROP=meta.pid: lies inside EVENT_META_FIELD=meta, which takes the whole object: name the parts`, dropping("meta.pid")},
		{`EVENT_DROP=a: contains EVENT_DROP=a.b`, dropping("a.b", "a")},
		{`EVENT_DROP=: has an empty path`, dropping("")},
		{`EVENT_TIME_FIELD=/: not a dotted path`, with(meta("m"), func(o *Options) { o.Root, o.TimeField = "a", "/" })},
		{`EVENT_TIME_FIELD=/$.t: not a dotted path: it begins with $, as in JSONPath`, with(meta("m"), func(o *Options) { o.Root, o.TimeField = "a", "/$.t" })},
		{`EVENT_META_FIELDS=x=/: not a dotted path`, with(meta("x=/"), func(o *Options) { o.Root = "a" })},
		{`EVENT_ROOT=/: not a dotted path`, with(meta("m"), func(o *Options) { o.Root = "/" })},
		{`EVENT_ROOT=a..b: not a dotted path`, with(meta("m"), func(o *Options) { o.Root = "a..b" })},
		{`EVENT_FIELDS=$: not a dotted path`, with(meta("m"), func(o *Options) { o.Fields = "$" })},
		{`EVENT_ROOT=/a: always begins at the top of the record`, with(meta("m"), func(o *Options) { o.Root = "/a" })},
		{`EVENT_ROOT=values[]: leads into an array, but paths lead through objects only`, with(meta("m"), func(o *Options) { o.Root = "values[]" })},
		{`EVENT_FIELDS=a[*].b: leads into an array`, with(meta("m"), func(o *Options) { o.Fields = "a[*].b" })},
		{`EVENT_TIME_FIELD=ts,timestamp: must name one field, but has a comma: if the time is at different paths in different events, write | between the paths`, with(meta("m"), func(o *Options) { o.TimeField = "ts,timestamp" })},
		{`EVENT_ROOT=a,b: must name one field, but has a comma: the event must be at the same path`, with(meta("m"), func(o *Options) { o.Root = "a,b" })},
		{`EVENT_FIELDS=x,y: must name one field, but has a comma: name the object`, with(meta("m"), func(o *Options) { o.Fields = "x,y" })},
		{`EVENT_META_FIELD=a,b: must name one field, but has a comma: for a meta of several fields set EVENT_META_FIELDS`, Options{MetaField: "a,b"}},
		{`EVENT_FIELDS=/f: must lie in EVENT_ROOT=a`, with(meta("m"), func(o *Options) { o.Root, o.Fields = "a", "/f" })},
		{`EVENT_TIME_FIELD=time: contains EVENT_FIELDS=time.f, the object that is stored`, with(meta("m"), func(o *Options) { o.Fields = "time.f" })},
		{`EVENT_META_FIELDS=f: contains EVENT_FIELDS=f, the object that is stored`, with(meta("f"), func(o *Options) { o.Fields = "f" })},
		{`EVENT_TIME_FIELD=/a: contains EVENT_ROOT=a.b, the object that is stored`, with(meta("m"), func(o *Options) { o.Root, o.TimeField = "a.b", "/a" })},
		{`EVENT_DROP=x: lies outside EVENT_FIELDS=f, so it is not stored anyway`, with(dropping("x"), func(o *Options) { o.Fields = "f" })},
		{`EVENT_DROP=/x: lies outside EVENT_ROOT=a, so it is not stored anyway`, with(dropping("/x"), func(o *Options) { o.Root = "a" })},
		{`EVENT_META_FIELDS=y=/a.x: names a field that is already named`, with(meta("x", "y=/a.x"), func(o *Options) { o.Root = "a" })},
	} {
		_, err := New(test.options)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v:\n%v, want …%s…", test.options, err, test.want)
		}
	}
	wrong := Options{TimeField: "..", MetaFields: []string{".."}, Root: "$", Fields: ".", Drop: []string{"."}}.CheckPaths()
	if len(wrong) != 5 {
		t.Errorf("%d settings are wrong, want each of 5: %v", len(wrong), wrong)
	}
}
