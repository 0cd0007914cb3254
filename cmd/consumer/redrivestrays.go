package main

import (
	"fmt"
	"io"
	"strings"

	"waterwheel/cmd/consumer/internal/text"
	"waterwheel/dlq"
)

// mostStrays is how many letters that are of no record are named.
const mostStrays = 3

// strays are letters that are not of the records that they name: the first of them, and how many there are.
type strays struct {
	first []string
	count int
}

func (s *strays) add(one dlq.Stray) {
	if s.count++; s.count <= mostStrays {
		s.first = append(s.first, fmt.Sprintf("%s/%d (%s)", one.Place, one.Offset, one.Wrong))
	}
}

// tell says it in one line.
func (s *strays) tell(w io.Writer) {
	if s.count == 0 {
		return
	}
	list := text.Printable(strings.Join(s.first, ", "))
	if more := s.count - len(s.first); more > 0 {
		list = fmt.Sprintf("%s and %d more", list, more)
	}
	fmt.Fprintf(w, "Not of the records that they name: %s. These letters stay: see who may write to the dead-letter topic; \"consumer dlq redrive --letter\" brings one back that is right all the same.\n", list)
}
