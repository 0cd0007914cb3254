package collection_test

import (
	"testing"

	"waterwheel/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
