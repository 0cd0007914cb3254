package check

import (
	"slices"
	"testing"
)

func TestDecodePositions(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes []byte
		want  []Position
	}{
		{"none", nil, nil},
		{"offset 0", []byte{0}, []Position{{0, 0}}},
		{"a part", []byte{1, 5}, []Position{{0, 5}}},
		{"forward and back", []byte{0xa0, 0x01, 4, 6}, []Position{{40, 0}, {41, 0}, {39, 0}}},
		{"parts of one record", []byte{0x28, 1, 1, 1, 2}, []Position{{10, 0}, {10, 1}, {10, 2}}},
	} {
		got, err := decodePositions(c.bytes)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v (%v), want %v", c.name, got, err, c.want)
		}
	}
	for _, broken := range [][]byte{{0x80}, {1}, {1, 0x80}, {2}, {1, 0x80, 0x80, 0x40}} {
		if got, err := decodePositions(broken); err == nil {
			t.Errorf("%x was taken for %v", broken, got)
		}
	}
}
