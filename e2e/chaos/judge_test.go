package chaos

import (
	"testing"
	"time"

	"waterwheel/e2e/harness/proxy"
)

// TestPassagesCountFromTheConsumerToTheAnswer covers a write that waited in between, one whose connection ended, and one that never
// arrived completely.
func TestPassagesCountFromTheConsumerToTheAnswer(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(1000+seconds), 0) }
	near := []proxy.Write{{Sum: 1, Began: at(0)}, {Sum: 2, Began: at(1)}, {Began: at(2)}}
	far := []proxy.Write{
		{Sum: 1, Began: at(5), Answered: at(11), Ended: at(20)}, {Sum: 2, Began: at(1), Ended: at(4)}, {Began: at(2), Ended: at(60)},
	}
	all := passages(near, far)
	if len(all) != 2 || all[0].took != 11*time.Second || all[1].took != 3*time.Second {
		t.Errorf("%+v", all)
	}
}
