package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// lowAddresses are addresses of the loopback interface that nobody listens on, with ports below those that the system
// gives to outgoing connections: a server that is started again finds its port free.
func lowAddresses(n int) ([]string, error) {
	addresses := make([]string, 0, n)
	for tries := 0; len(addresses) < n; tries++ {
		address := fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000))
		listener, err := net.Listen("tcp", address)
		if err != nil {
			if tries > 100 {
				return nil, fmt.Errorf("looking for a free port: %w", err)
			}
			continue
		}
		defer listener.Close() // not before all are found, so that none is found twice
		addresses = append(addresses, address)
	}
	return addresses, nil
}

// NewLinkAddress is an address for a link or a server that may close and listen again.
func NewLinkAddress() (string, error) {
	addresses, err := lowAddresses(1)
	if err != nil {
		return "", err
	}
	return addresses[0], nil
}
