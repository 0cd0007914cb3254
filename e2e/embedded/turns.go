package embedded

import (
	"net"
	"slices"
	"sync"

	"waterwheel/e2e/harness/proxy"
	"waterwheel/e2e/harness/wire"
)

// changing are the commands that read a document and write it.
var changing = []string{"insert", "update", "delete", "findAndModify", "findandmodify"}

// turns stands before a FerretDB and lets one of its clients change something at a time. FerretDB reads what an update is about,
// changes it and writes it whole without keeping others from doing the same meanwhile: of two updates of a document at once it
// acknowledges both and keeps one. Besides, its SQLite lets writers wait for each other in steps of 100 ms.
type turns struct {
	*proxy.Proxy
	turn sync.Mutex
}

// takeTurns stands before the FerretDB at an address. The caller closes it.
func takeTurns(address string) (_ *turns, err error) {
	t := &turns{}
	t.Proxy, err = proxy.New(address, t.serve)
	return t, err
}

// serve forwards requests and their answers, until either side ends the connection.
func (t *turns) serve(client, server net.Conn) {
	for {
		request, err := wire.Read(client)
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

// ask returns the server's answer; nil where the client awaits none: FerretDB answers also then.
func (t *turns) ask(server net.Conn, request wire.Message) (wire.Message, error) {
	command, _ := wire.Parse(request) // what it does not take apart is a handshake
	if slices.Contains(changing, command.Name()) {
		t.turn.Lock()
		defer t.turn.Unlock()
	}
	if _, err := server.Write(request); err != nil {
		return nil, err
	}
	answer, err := wire.Read(server)
	if command.Unanswered {
		answer = nil
	}
	return answer, err
}
