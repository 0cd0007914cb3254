package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMetaIndexes(t *testing.T) {
	c, err := load(with("META_INDEXES", "meta.sensor, meta.site.name"))
	if diff := cmp.Diff([]string{"meta.sensor", "meta.site.name"}, c.MongoDB.MetaIndexes); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if c, err = load(with("META_INDEXES", "tags.meta", "MONGODB_META_FIELD", "tags")); err != nil || len(c.MongoDB.MetaIndexes) != 1 {
		t.Error(c.MongoDB.MetaIndexes, err)
	}
	for _, bad := range []struct {
		pairs []string
		want  string
	}{
		{[]string{"META_INDEXES", "sensor"}, "write it as queries do, meta.sensor (MONGODB_META_FIELD=meta)"},
		{[]string{"META_INDEXES", "meta.sensor", "MONGODB_META_FIELD", "tags"}, "is not a path within the meta"},
		{[]string{"META_INDEXES", "meta"}, "the whole meta always has an index"},
		{[]string{"META_INDEXES", "metadata.x"}, "is not a path within the meta"},
		{[]string{"META_INDEXES", "meta."}, "a name that is empty"},
		{[]string{"META_INDEXES", "meta.a..b"}, "a name that is empty"},
		{[]string{"META_INDEXES", "meta.$**"}, "begins with $"},
		{[]string{"META_INDEXES", "meta.a,meta.a"}, "is listed twice"},
		{[]string{"META_INDEXES", "meta.a", "EVENT_META_FROM", "none"}, "measurements then have no meta"},
		{[]string{"META_INDEXS", "meta.a"}, "did you mean META_INDEXES?"},
	} {
		if lines := problems(t, with(bad.pairs...)); len(lines) != 1 || !strings.Contains(lines[0], bad.want) {
			t.Errorf("%v: %q, want one …%s…", bad.pairs, lines, bad.want)
		}
	}
}
