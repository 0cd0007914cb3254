package check

import (
	"testing"

	"waterwheel/internal/kafka"
)

func TestDurabilityOfTopics(t *testing.T) {
	for _, c := range []struct {
		replicas, inSync int
		least, text      string
	}{
		{1, 1, "1", "one replica"},
		{3, 2, "2", "2 of 3 replicas are in sync"},
		{3, 3, "3", "nothing can be written when one broker is down"},
		{3, 3, "1", "is lost with this broker"},
		{3, 3, "2", ""},
	} {
		l := look{Findings: &Findings{}}
		l.durability("topic", kafka.Configuration{Replicas: c.replicas, InSync: c.inSync, Values: map[string]string{"min.insync.replicas": c.least}})
		if c.text == "" && len(*l.Findings) == 0 {
			continue
		}
		if len(*l.Findings) != 1 || c.text == "" || !l.has(Warning, c.text) {
			t.Errorf("%+v: %+v", c, *l.Findings)
		}
	}
}
