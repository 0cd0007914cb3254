package embedded

import (
	"net"
	"slices"
	"sync"

	"waterwheel/e2e/harness/proxy"
)

// changing lists the commands that read a document and write it.
var changing = []string{"insert", "update", "delete", "findAndModify", "findandmodify"}

// turns is a proxy in front of a FerretDB that lets only one client change documents at a time. FerretDB reads a document,
// changes it and writes it whole, without excluding concurrent updates. It acknowledges two concurrent updates of a document, and
// keeps only one. Besides, its SQLite makes writers wait for each other in steps of 100 ms.
type turns struct {
	*proxy.Proxy
	turn sync.Mutex
}

// takeTurns starts the proxy in front of the FerretDB at address. The caller closes it.
func takeTurns(address string) (_ *turns, err error) {
	t := &turns{}
	t.Proxy, err = proxy.New(address, t.serve)
	return t, err
}

// serve forwards requests and their answers, until either side ends the connection.
func (t *turns) serve(client, server net.Conn) {
	for {
		request, err := proxy.Read(client)
		if err != nil {
			return
		}
		answer, err := t.ask(server, request)
		if err != nil {
			return
		}
		if _, err := client.Write(answer); err != nil {
			return
		}
	}
}

// ask returns the server's answer, or nil if the client expects none. FerretDB answers in either case.
func (t *turns) ask(server net.Conn, request proxy.Message) (proxy.Message, error) {
	command, _ := proxy.Parse(request) // a message that Parse does not support is a handshake
	if slices.Contains(changing, command.Name()) {
		t.turn.Lock()
		defer t.turn.Unlock()
	}
	if _, err := server.Write(request); err != nil {
		return nil, err
	}
	answer, err := proxy.Read(server)
	if command.Unanswered {
		answer = nil
	}
	return answer, err
}
