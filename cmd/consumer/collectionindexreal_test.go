package main

import (
	"maps"
	"strings"
	"testing"
)

// TestIndexesOnServers makes indexes at init, by a command and while a consumer runs, and removes them.
func TestIndexesOnServers(t *testing.T) {
	s := newStage(t)
	s.command(exitFailed, "there is no time series "+s.topic+" yet", "collection", "create-index", `{"meta.a": 1}`)
	s.env["META_INDEXES"] = "meta.sensor"
	initialized := func() string {
		t.Helper()
		code, stdout, stderr := try(t, s.env, "init")
		if code != exitDone {
			t.Fatalf("init: exit code %d: %s", code, stderr)
		}
		return stdout
	}
	if out := initialized(); !strings.Contains(out, "created the index meta.sensor_1_time_-1 for META_INDEXES") {
		t.Errorf("init says nothing of the index:\n%s", out)
	}
	if out := initialized(); strings.Contains(out, "META_INDEXES") {
		t.Errorf("init made it again:\n%s", out)
	}
	stop := s.consume()
	s.produce(1000) // with fewer buckets, a server that explains queries reports that few buckets are read without an index
	s.command(exitDone, `created the index meta.site_1_time_-1 on {"meta.site":1,"time":-1}`, "collection", "create-index", `{"meta.site": 1, "time": -1}`)
	s.command(exitDone, "exists already", "collection", "create-index", `{"meta.site": 1, "time": -1}`)
	s.verified()
	stop()
	s.command(exitFailed, "InvalidOptions", "collection", "create-index", `{"meta.site": 1}`, "--options", `{"unique": true}`)
	s.command(exitFailed, "CannotCreateIndex", "collection", "create-index", `{"time": "hashed"}`)
	t.Log(s.command(exitDone, `meta.site_1_time_-1`, "collection", "indexes"))
	s.env["META_INDEXES"] = "meta.zone"
	out := s.command(exitDone, "META_INDEXES asks for meta.zone", "collection", "indexes")
	if !strings.Contains(out, "META_INDEXES no longer asks for meta.sensor_1_time_-1") {
		t.Errorf("nothing is said of the one that is not asked for any more:\n%s", out)
	}
	s.command(exitDone, "META_INDEXES asks for meta.zone, but no index supports queries on it", "check")
	s.command(exitDone, "the index meta.sensor_1_time_-1 supports the filter on meta.sensor", "check", "--filter", `{"meta.sensor": "s-1"}`)
	out = s.command(exitDone, "no index ", "check", "--filter", `{"meta.host": 2}`)
	if wayOut := `create-index '{"meta.host":1,"time":-1}', or META_INDEXES=meta.host`; !strings.Contains(out, wayOut) && !strings.Contains(out, "but at present the filter reads few buckets") {
		t.Errorf("%s is not in:\n%s", wayOut, out)
	}
	s.command(exitDone, "buckets and segments has meta.floor: the filter finds nothing there", "check", "--filter", `{"meta.floor": 5}`)
	s.command(exitUsage, "is not a JSON object", "check", "--filter", `{meta.floor: 5}`)
	for _, name := range []string{"meta_1_control.min.time_1", "_id_"} {
		s.command(exitFailed, "is needed", "collection", "drop-index", name)
		s.command(exitFailed, "is needed", "collection", "hide-index", name)
	}
	s.command(exitFailed, `the index meta.site_1_time_-1 on {"meta.site":1,"time":-1} would be dropped`, "collection", "drop-index", "meta.site_1_time_-1")
	s.command(exitDone, "the index meta.site_1_time_-1 is dropped", "collection", "drop-index", "meta.site_1_time_-1", "--yes")
	s.command(exitFailed, "meta.sensor_1_time_-1", "collection", "drop-index", "meta.site_1_time_-1", "--yes")

	// Features that the server may lack are tried. Where one is missing, a message must say so.
	for _, args := range [][]string{
		{"create-index", `{"temperature": 1}`, "--name", "hidden", "--hidden"},
		{"create-index", `{"temperature": -1}`, "--name", "partial", "--partial", `{"meta.site": "x"}`},
		{"create-index", `{"time": 1}`, "--name", "expiring", "--expire-after", "24h", "--partial", `{"meta.site": "x"}`, "--yes"},
	} {
		code, stdout, stderr := try(t, s.env, append([]string{"collection"}, args...)...)
		switch {
		case code == exitFailed && (strings.Contains(stderr, "NotImplemented") || strings.Contains(stderr, "ignores")):
			t.Logf("this server cannot: %s", stderr)
		case code != exitDone || !strings.Contains(stdout, "created the index "+args[3]):
			t.Errorf("%v: exit code %d, %s%s", args, code, stdout, stderr)
		default:
			s.command(exitDone, "dropped", "collection", "drop-index", args[3], "--yes")
		}
	}

	// The consumer makes this index too, and continues if it cannot be made.
	env := maps.Clone(s.env)
	s.env["META_INDEXES"] = "meta.zone"
	defer s.consume()()
	s.produce(100)
	s.verified()
	s.env = env
	s.command(exitDone, "meta.zone_1_time_-1", "collection", "indexes")
}
