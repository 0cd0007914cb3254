package sink

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waterwheel/bucketer"
	"waterwheel/internal/mongodb"
)

func TestClassifyByClosedLists(t *testing.T) {
	network := errors.New("connection reset")
	for _, c := range []struct {
		name  string
		n     int
		reply mongodb.Reply
		err   error
		want  []bucketer.Result
	}{
		{name: "all executed", n: 2, reply: mongodb.Reply{N: 2}, want: []bucketer.Result{bucketer.Applied, bucketer.Applied}},
		{name: "fewer found", n: 3, reply: mongodb.Reply{N: 2}, want: []bucketer.Result{bucketer.Unknown, bucketer.Unknown, bucketer.Unknown}},
		{name: "more than were asked for", n: 1, reply: mongodb.Reply{N: 2}, want: []bucketer.Result{bucketer.Unknown}},
		{
			name: "one refused", n: 3, reply: mongodb.Reply{N: 2, Errors: []mongodb.WriteError{{Index: 1, Code: 121}}},
			want: []bucketer.Result{bucketer.Applied, bucketer.Refused, bucketer.Applied},
		},
		{
			name: "one refused, one not found", n: 3, reply: mongodb.Reply{N: 1, Errors: []mongodb.WriteError{{Index: 1, Code: 57}}},
			want: []bucketer.Result{bucketer.Unknown, bucketer.Refused, bucketer.Unknown},
		},
		{
			name: "a duplicate", n: 2, reply: mongodb.Reply{N: 1, Errors: []mongodb.WriteError{{Index: 0, Code: 11000}}},
			want: []bucketer.Result{bucketer.Unknown, bucketer.Applied},
		},
		{
			name: "a code on no list", n: 2, reply: mongodb.Reply{N: 1, Errors: []mongodb.WriteError{{Index: 1, Code: 112}}},
			want: []bucketer.Result{bucketer.Applied, bucketer.Unknown},
		},
		{
			name: "write concern not met", n: 3, reply: mongodb.Reply{N: 2, Errors: []mongodb.WriteError{{Index: 2, Code: 2}}, Unconfirmed: network},
			want: []bucketer.Result{bucketer.Unknown, bucketer.Unknown, bucketer.Refused},
		},
		{name: "an index out of range", n: 1, reply: mongodb.Reply{N: 1, Errors: []mongodb.WriteError{{Index: 5, Code: 2}}}, want: []bucketer.Result{bucketer.Applied}},
		{name: "no answer", n: 2, err: network, want: []bucketer.Result{bucketer.Unknown, bucketer.Unknown}},
		{name: "deadline", n: 1, err: context.DeadlineExceeded, want: []bucketer.Result{bucketer.Unknown}},
		{name: "not sent", n: 2, err: &mongodb.NotSentError{Err: network}, want: []bucketer.Result{bucketer.NotExecuted, bucketer.NotExecuted}},
		{name: "no primary", n: 1, err: &mongodb.CommandError{Code: 10107}, want: []bucketer.Result{bucketer.NotExecuted}},
		{name: "stepped down meanwhile", n: 1, err: &mongodb.CommandError{Code: 11602}, want: []bucketer.Result{bucketer.Unknown}},
		{name: "out of time on the server", n: 1, err: &mongodb.CommandError{Code: 50}, want: []bucketer.Result{bucketer.Unknown}},
		{name: "refused whole", n: 1, err: &mongodb.CommandError{Code: 10334}, want: []bucketer.Result{bucketer.Refused}},
		{name: "no privilege", n: 1, err: &mongodb.CommandError{Code: 13}, want: []bucketer.Result{bucketer.Unknown}},
	} {
		var got []bucketer.Result
		for _, s := range classify(c.n, c.reply, c.err) {
			got = append(got, s.Result)
			if (s.Result == bucketer.Unknown || s.Result == bucketer.NotExecuted) && s.Err == nil {
				t.Errorf("%s: no reason is given", c.name)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

// effect is the consequence of a code in the three places where it can occur.
type effect struct {
	write   bucketer.Result // as the answer to one write of a bulk call
	command bucketer.Result // as the answer to a whole bulk call of one write
	lasts   bool            // as the answer to any other request it lasts until an operator changes something
}

// These are the possible effects.
var (
	leavesOpen = effect{bucketer.Unknown, bucketer.Unknown, false}
	resent     = effect{bucketer.Unknown, bucketer.NotExecuted, false}
	isBadData  = effect{bucketer.Refused, bucketer.Refused, true}
	isRefusal  = effect{bucketer.Unknown, bucketer.Unknown, true} // of all writes alike, so it is an outage and never a letter
)

// TestWhatComesOfEachCode tries every code below 20,000, and the few above, in each place.
func TestWhatComesOfEachCode(t *testing.T) {
	want := map[int32]effect{
		10058: resent, 10107: resent, 13435: resent,
		2: isBadData, 9: isBadData, 14: isBadData, 28: isBadData, 52: isBadData, 56: isBadData, 57: isBadData, 121: isBadData,
		171: isBadData, 201: isBadData, 13026: isBadData, 13027: isBadData, 13067: isBadData, 13068: isBadData,
		16675: isBadData, 16732: isBadData, 16733: isBadData, 16746: isBadData, 16755: isBadData, 16756: isBadData,
		16766: isBadData, 16804: isBadData, 17261: isBadData, 17262: isBadData, 17280: isBadData,
		10334: isBadData, 17419: isBadData, 17420: isBadData,
		13: isRefusal, 18: isRefusal, 20: isRefusal, 40: isRefusal, 54: isRefusal, 59: isRefusal, 61: isRefusal, 66: isRefusal, 67: isRefusal, 72: isRefusal,
		73: isRefusal, 79: isRefusal, 100: isRefusal, 115: isRefusal, 153: isRefusal, 166: isRefusal, 238: isRefusal, 371: isRefusal, 31025: isRefusal, 40415: isRefusal,
	}
	codes := []int32{31025, 40415, 46841, 91331}
	for code := range int32(20_000) {
		codes = append(codes, code)
	}
	for _, code := range codes {
		expected, listed := want[code]
		if !listed {
			expected = leavesOpen
		}
		got := effect{write: classifyCode(code, "no").Result, command: classifyError(&mongodb.CommandError{Code: code}).Result}
		got.lasts = errors.As(mongodb.Failure("trying", &mongodb.CommandError{Code: code}), new(*mongodb.RefusedError))
		if got != expected {
			t.Errorf("code %d: %+v, want %+v", code, got, expected)
		}
	}
}
