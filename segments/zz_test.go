package segments
import "testing"
func TestWeak(t *testing.T) {
	for _, g := range []guard{fenceD,releaseClean,announceAlone,insertsInTime,waitForInserts,undoSticks,unmarkOwn,deleteOwn,forgetOwn,settleResolved,fenceReadBack,recoverFence} {
		n, fault := noticed(g)
		t.Logf("%5d %s: %s", n, g, fault)
	}
}
