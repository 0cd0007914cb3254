package sink

import (
	"errors"
	"testing"

	"waterwheel/bucketer"
)

// effect is what comes of a code in the three places where one can stand.
type effect struct {
	write   bucketer.Result // as the answer to one write of a bulk call
	command bucketer.Result // as the answer to a whole bulk call of one write
	lasts   bool            // As the answer to any other request, it lasts until an operator changes something.
}

// The effects that there are.
var (
	leavesOpen = effect{bucketer.Unknown, bucketer.Unknown, false}
	resent     = effect{bucketer.Unknown, bucketer.NotExecuted, false}
	isBadData  = effect{bucketer.Refused, bucketer.Refused, true}
	isRefusal  = effect{bucketer.Unknown, bucketer.Unknown, true} // of all writes alike: an outage, never a letter
)

// TestWhatComesOfEachCode tries every code below 20,000, and the few above it, in each place.
func TestWhatComesOfEachCode(t *testing.T) {
	want := map[int32]effect{
		10058: resent, 10107: resent, 13435: resent,
		2: isBadData, 9: isBadData, 14: isBadData, 28: isBadData, 52: isBadData, 56: isBadData, 57: isBadData, 121: isBadData,
		171: isBadData, 201: isBadData, 13026: isBadData, 13027: isBadData, 13067: isBadData, 13068: isBadData,
		16675: isBadData, 16732: isBadData, 16733: isBadData, 16746: isBadData, 16755: isBadData, 16756: isBadData,
		16766: isBadData, 16804: isBadData, 17261: isBadData, 17262: isBadData, 17280: isBadData,
		10334: isBadData, 17419: isBadData, 17420: isBadData,
		13: isRefusal, 18: isRefusal, 20: isRefusal, 40: isRefusal, 59: isRefusal, 61: isRefusal, 66: isRefusal, 67: isRefusal, 72: isRefusal,
		73: isRefusal, 79: isRefusal, 100: isRefusal, 115: isRefusal, 166: isRefusal, 238: isRefusal, 371: isRefusal, 31025: isRefusal, 40415: isRefusal,
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
		got := effect{write: classifyCode(code, "no").Result, command: classifyError(&CommandError{Code: code}).Result}
		got.lasts = errors.As(failure("trying", &CommandError{Code: code}), new(*RefusedError))
		if got != expected {
			t.Errorf("code %d, %s: %+v, want %+v", code, answerOf(code).name, got, expected)
		}
	}
}

// TestEveryRowIsOfUse: each code has one row and a name, and the outages that a server is known to have are all there.
func TestEveryRowIsOfUse(t *testing.T) {
	seen := map[int32]bool{}
	for _, a := range answers {
		if seen[a.code] || a.name == "" {
			t.Errorf("code %d has the row %+v", a.code, a)
		}
		seen[a.code] = true
	}
	for name, codes := range map[string][]int32{
		"elections":   {189, 10058, 10107, 11602, 13435, 13436},
		"shutdown":    {91, 11600},
		"time-outs":   {24, 50, 64, 89, 262},
		"throttling":  {365, 402, 433, 449, 462, 16500},
		"disk full":   {14031},
		"interrupted": {11601},
		"network":     {6, 7, 9001},
		"sharding":    {20, 61, 66, 133, 13388, 31025},
	} {
		for _, code := range codes {
			if !seen[code] {
				t.Errorf("%s: code %d has no row", name, code)
			}
			if blamesDocument(code) {
				t.Errorf("%s: code %d is taken for bad data", name, code)
			}
		}
	}
}
