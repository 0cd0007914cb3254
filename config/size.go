package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, written as 125KiB, 2MiB or 1GiB.
type Size int64

// units are the suffixes of a Size, largest first.
var units = []struct {
	suffix string
	bytes  int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// UnmarshalText reads a whole number with a unit. A number without unit counts bytes. M, MB, Mi and MiB mean the same unit in any
// case, as they do in Docker: units are always powers of 1024.
func (s *Size) UnmarshalText(text []byte) error {
	number := strings.TrimRightFunc(string(text), func(r rune) bool { return r < '0' || r > '9' })
	unit := strings.ToLower(strings.TrimSpace(string(text[len(number):])))
	for _, u := range units {
		suffix := strings.ToLower(u.suffix)
		if unit != suffix && unit != suffix[:1] && unit != suffix[:1]+"b" && unit != strings.TrimSuffix(suffix, "b") {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/u.bytes {
			break
		}
		*s = Size(n * u.bytes)
		return nil
	}
	return errors.New("not a size: write a whole number with KiB, MiB or GiB; K, M and G mean the same")
}

// String formats the size in its largest whole unit.
func (s Size) String() string {
	for _, u := range units {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.suffix
		}
	}
	return "0B"
}
