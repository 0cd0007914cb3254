package config

import (
	"fmt"
	"strings"
)

// Problem is one thing wrong with the settings.
type Problem struct {
	// Variable is the setting's name.
	Variable string
	// Value is the setting's value, masked if it is a secret. Empty means that it is not set.
	Value string
	// Message says what is wrong and what would be right.
	Message string
}

// String formats the problem on one line.
func (p Problem) String() string {
	if p.Value == "" {
		return p.Variable + ": " + p.Message
	}
	return fmt.Sprintf("%s=%s: %s", p.Variable, p.Value, p.Message)
}

// Error lists everything that is wrong with the settings, in the order of the reference.
type Error struct {
	Problems []Problem
}

// Error returns one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	return "wrong settings:\n  " + strings.Join(lines, "\n  ")
}
