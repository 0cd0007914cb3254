package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// lowAddresses returns n addresses of the loopback interface with free ports. The ports are below the system's range for outgoing
// connections, so a server that is started again finds its port free.
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
		defer listener.Close() // closed only after the last is found, so that no address is found twice
		addresses = append(addresses, address)
	}
	return addresses, nil
}

// NewLinkAddress returns an address for a link or a server that may close and listen again.
func NewLinkAddress() (string, error) {
	addresses, err := lowAddresses(1)
	if err != nil {
		return "", err
	}
	return addresses[0], nil
}
