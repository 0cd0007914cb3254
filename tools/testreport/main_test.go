package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	const events = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"noise\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:9: no Kafka\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:3: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestC"}
go: a line of its own
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
`
	var out strings.Builder
	r := report{out: &out, output: map[test][]string{}}
	if err := r.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	r.close()
	want := "    c_test.go:3: wrong\ngo: a line of its own\nFAIL\tp\t0.1s\n\nskipped:\n  p TestB: b_test.go:9: no Kafka\n\n1 passed, 1 failed, 1 skipped\n"
	if out.String() != want {
		t.Errorf("report:\n%s\nwant:\n%s", out.String(), want)
	}
	if !r.broken || r.failed != 1 || len(r.output) != 0 {
		t.Errorf("broken %v, %d failed, %d outputs kept", r.broken, r.failed, len(r.output))
	}
}

func TestABuildThatFailsIsAFailure(t *testing.T) {
	var out strings.Builder
	r := report{out: &out, output: map[test][]string{}}
	err := r.read(strings.NewReader(`{"Action":"build-output","ImportPath":"p","Output":"p.go:1: syntax error\n"}` + "\n" + `{"Action":"build-fail","ImportPath":"p"}`))
	if err != nil || !r.broken || !strings.Contains(out.String(), "syntax error") {
		t.Errorf("error %v, broken %v, output %q", err, r.broken, out.String())
	}
}
