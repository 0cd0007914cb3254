package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, written as 125KiB, 2MiB or 1GiB.
type Size int64

// units are the suffixes of a Size, largest first.
func units() []struct {
	suffix string
	bytes  int64
} {
	return []struct {
		suffix string
		bytes  int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}
}

// ParseSize reads a whole number with a unit; without one it counts bytes.
func ParseSize(text string) (Size, error) {
	number, scale := text, int64(1)
	for _, u := range units() {
		if rest, ok := strings.CutSuffix(text, u.suffix); ok {
			number, scale = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size: write a whole number with B, KiB, MiB, GiB or TiB", text)
	}
	if n > math.MaxInt64/scale || n < 0 {
		return 0, fmt.Errorf("%q is not a size between 0 and 8388607TiB", text)
	}
	return Size(n * scale), nil
}

// UnmarshalText is ParseSize.
func (s *Size) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSize(string(text))
	return err
}

// String writes the size in its largest whole unit.
func (s Size) String() string {
	for _, u := range units() {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.suffix
		}
	}
	return "0B"
}
