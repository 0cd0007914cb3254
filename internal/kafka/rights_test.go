package kafka

import "testing"

func TestRightsThatAreNotToldAreAllowed(t *testing.T) {
	const read, untold = 1<<Read | 1<<describe, -1 << 31
	for _, c := range []struct {
		rights Rights
		asked  Operation
		want   bool
	}{
		{read, Read, true},
		{read, Write, false},
		{1 << describe, Read, false},
		{untold, Write, true},
		{0, Write, true}, // the right to use a resource includes Describe, so a broker that denies it says nothing
	} {
		if got := c.rights.Allow(c.asked); got != c.want {
			t.Errorf("%b allows %d: %v", c.rights, c.asked, got)
		}
	}
}
