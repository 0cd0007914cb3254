package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"
)

// Registry is a schema registry that answers like Confluent's.
type Registry struct {
	URL string
	// User and Password are required of clients, unless they are empty.
	User, Password string

	mu      sync.Mutex
	server  *http.Server
	schemas map[string]string // bodies of answers by path
	isAway  bool
	asked   map[string]int // number of requests by path, while it was available
}

// StartRegistry starts a registry without schemas. The caller kills it.
func StartRegistry() (*Registry, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the schema registry: %w", err)
	}
	r := &Registry{URL: "http://" + listener.Addr().String(), schemas: map[string]string{}, asked: map[string]int{}}
	r.server = &http.Server{Handler: r}          //nolint:gosec // Only the tested program asks it.
	go func() { _ = r.server.Serve(listener) }() // It ends with Kill.
	return r, nil
}

// Kill ends the registry and all its connections.
func (r *Registry) Kill() { _ = r.server.Close() }

// ServeHTTP implements http.Handler.
func (r *Registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isAway {
		http.Error(w, "<html>no server</html>", http.StatusServiceUnavailable)
		return
	}
	if user, password, _ := request.BasicAuth(); user != r.User || password != r.Password {
		http.Error(w, `{"error_code":401,"message":"Unauthorized"}`, http.StatusUnauthorized)
		return
	}
	r.asked[request.URL.Path]++
	text, found := r.schemas[request.URL.Path]
	if !found {
		http.Error(w, `{"error_code":40403,"message":"Schema not found"}`, http.StatusNotFound)
		return
	}
	_, _ = w.Write([]byte(text))
}

// Put answers requests for a path with a schema of a type: AVRO, PROTOBUF or JSON.
func (r *Registry) Put(of, path, text string, references ...map[string]any) {
	body, err := json.Marshal(map[string]any{"schema": text, "schemaType": of, "references": references})
	if err != nil {
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.schemas[path] = string(body)
}

// Away makes the registry answer nothing but an error, as a proxy does whose server is gone.
func (r *Registry) Away(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isAway = is
}

// Asked returns the number of requests by path, without requests while the registry was unavailable.
func (r *Registry) Asked() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.asked)
}
