package config

import "testing"

// TestPortOfThePage checks that a page that only its own machine can reach is not announced to the group.
func TestPortOfThePage(t *testing.T) {
	for address, want := range map[string]uint16{
		"": 0, "127.0.0.1:9464": 0, "localhost:9464": 0, "[::1]:9464": 0, ":0": 0, ":9464": 9464, "0.0.0.0:80": 80, "[::]:9464": 9464, "10.0.0.5:65535": 65535,
	} {
		if got := (Service{HTTPAddr: address}).PagePort(); got != want {
			t.Errorf("HTTP_ADDR=%s: port %d, want %d", address, got, want)
		}
	}
}
