package config

import (
	"net"
	"strconv"
)

// isLoopback reports whether a host is a loopback address or localhost.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// PagePort returns the TCP port of the status page. It is zero if other machines cannot reach the page.
func (s Service) PagePort() uint16 {
	host, port, err := net.SplitHostPort(s.HTTPAddr)
	if err != nil || isLoopback(host) {
		return 0
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(number)
}
