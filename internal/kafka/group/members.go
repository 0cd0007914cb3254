package group

import (
	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// Described is a member of a group, as its coordinator and its own subscription describe it.
type Described struct {
	kafka.Member
	// Ours means that the member is a consumer of this program.
	Ours bool
	// Partitions are assigned to the member, in order. There are none during a rebalance.
	Partitions []record.Partition
	// Page is the TCP port of the member's status page. Zero means that other machines cannot reach it.
	Page uint16
}

// Describe reads what a member tells about itself. It tolerates members of other programs.
func Describe(m kafka.Member) Described {
	_, claim, _ := decodeClaim(m.Subscription) // empty unless a consumer of this program made it
	d := Described{Member: m, Ours: IsOurs(m), Page: claim.page}
	if partitions, _, err := decodeAssignment(m.Assignment); err == nil {
		d.Partitions = partitions
	}
	return d
}
