package bucketer

import (
	"math/rand/v2"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestFinderFindsEachOnce looks up some members of small and large objects, in any order and repeatedly, and names that do not
// exist.
func TestFinderFindsEachOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	for range 5000 {
		names := make([]byte, 1+random.IntN(200))
		for i := range names {
			names[i] = byte(1 + i)
		}
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		var elements []byte
		for _, name := range names {
			elements = append(elements, byte(bson.TypeNull), name, 0)
		}
		f, left := finder{kind: bson.TypeEmbeddedDocument, rest: elements}, slices.Clone(names)
		for range random.IntN(2 * len(names)) {
			name := byte(1 + random.IntN(250))
			if random.IntN(2) == 0 && len(left) > 0 {
				name = left[0]
			}
			at := slices.Index(left, name)
			e, ok := f.next([]byte{name})
			if ok != (at >= 0) || ok && string(e.Name) != string([]byte{name}) {
				t.Fatalf("of % x, of which % x are left, %x is found: %v", names, left, name, ok)
			}
			if ok {
				left = slices.Delete(left, at, at+1)
			}
			if f.isEmpty() != (len(left) == 0) {
				t.Fatalf("of % x % x are left, empty: %v", names, left, f.isEmpty())
			}
		}
		var rest []byte
		for _, name := range left {
			rest = append(rest, byte(bson.TypeNull), name, 0)
		}
		if got := f.appendRest(nil); string(got) != string(rest) {
			t.Fatalf("of % x there are left % x, want % x", names, got, rest)
		}
	}
}
