package choices

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"
)

func TestChoicesComeBack(t *testing.T) {
	for _, c := range []Choices{{}, {Keep: true}, {Keep: true, Consumer: "a b/consumer"}} {
		if got, err := Parse(c.Args(), &bytes.Buffer{}); err != nil || got != c {
			t.Errorf("%v came back as %v (%v)", c, got, err)
		}
	}
}

func TestHelpExplains(t *testing.T) {
	var out bytes.Buffer
	if _, err := Parse([]string{"-h"}, &out); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v", err)
	}
	for _, word := range []string{"SIGKILL", "earliest offset", "-keep", "CONSUMER="} {
		if !strings.Contains(out.String(), word) {
			t.Errorf("the help does not mention %s", word)
		}
	}
	if _, err := Parse([]string{"keep"}, &out); err == nil {
		t.Error("a word without dash was taken")
	}
}
