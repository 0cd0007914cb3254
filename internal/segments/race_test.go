//go:build race

package segments

func init() { raced = true }
