// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"hash/fnv"
	"io"
	"log"
	"sync"
	"time"

	"purerdma/cm"
	"purerdma/inflight"
	"purerdma/pool"
	"purerdma/verbs"
)

// window bounds the requests of a client that have no answer yet.
const window = 128

// receives configures the receives of both sides. There is a receive for each request and for each
// answer that may be in flight.
var receives = &inflight.ReceiveConfig{Size: 1024, Depth: window}

// message is a request or its answer.
type message struct {
	ID         int    // of the request
	Op         string `json:",omitempty"` // GET, PUT or DELETE
	Key, Value string `json:",omitempty"`
	Error      Error  `json:",omitempty"` // of an answer
}

// Error is an error that the server reports.
type Error string

func (e Error) Error() string { return string(e) }

// ErrNotFound reports that a key has no value.
const ErrNotFound Error = "no such key"

// send starts to send a message. The connection frees the memory when the message is sent.
func (m message) send(ctx context.Context, conn *cm.Conn) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(data) > receives.Size {
		return Error("key and value are too long")
	}
	b, err := conn.Pool().Copy(ctx, data)
	if err != nil {
		return err
	}
	op, err := conn.StartSend(ctx, b.SGE(), b)
	if err == nil {
		op.Detach() // no goroutine waits for it
	}
	return err
}

const (
	slotSize  = 64
	tableSize = 1024 * slotSize
	header    = 6 // checksum, length of the key, length of the value
)

// offset returns the offset of the slot of a key. If two keys have the same slot, the later one
// replaces the earlier one.
func offset(key string) int {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int(h.Sum32()%(tableSize/slotSize)) * slotSize
}

// set writes a value into a slot. A value that is too long leaves the slot empty.
func set(slot []byte, key, value string) {
	clear(slot)
	if header+len(key)+len(value) <= slotSize {
		slot[4], slot[5] = byte(len(key)), byte(len(value))
		copy(slot[header:], key+value)
		binary.BigEndian.PutUint32(slot, crc32.ChecksumIEEE(slot[4:]))
	}
}

// lookup returns the value in a copy of the slot of a key. It finds none if the slot has another
// key, or if the server wrote the slot during the READ, so that the checksum is wrong.
func lookup(slot []byte, key string) (value string, found bool) {
	end := header + len(key)
	if int(slot[4]) != len(key) || end+int(slot[5]) > slotSize || string(slot[header:end]) != key ||
		binary.BigEndian.Uint32(slot) != crc32.ChecksumIEEE(slot[4:]) {
		return "", false
	}
	return string(slot[end:][:slot[5]]), true
}

// Server serves a store to any number of clients.
type Server struct {
	mu     sync.Mutex // guards the following fields
	values map[string]string
	table  []byte // has the short values
}

// Serve accepts clients until ctx ends. It returns when all connections are closed.
func (s *Server) Serve(ctx context.Context, ln *cm.Listener) error {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		req, err := ln.Accept(ctx)
		if err != nil {
			return err
		}
		all.Go(func() {
			if err := s.serve(ctx, req); !errors.Is(err, io.EOF) && ctx.Err() == nil {
				log.Printf("client %v: %v", req.RemoteAddr(), err)
			}
		})
	}
}

// serve answers the requests of one client. It returns io.EOF when the client has disconnected.
func (s *Server) serve(ctx context.Context, req *cm.Request) error {
	defer req.Close()
	pd, err := req.PD() // of this connection only
	if err != nil {
		return err
	}
	mr, err := pd.RegMR(s.table, verbs.RemoteRead)
	if err != nil {
		return err
	}
	defer mr.Close()
	offer, _ := mr.Remote().MarshalBinary() // has no errors
	conn, err := req.Accept(ctx, nil, &cm.ConnParam{PrivateData: offer})
	if err != nil {
		return err
	}
	defer conn.Close()
	defer shutDown(conn)
	for ctx.Err() == nil {
		m, err := conn.Receive(ctx)
		if err != nil {
			return err
		}
		var request message
		err = json.Unmarshal(m.Bytes(), &request)
		m.Free() // before the answer, after which the client may send its next request
		if err != nil {
			return err
		}
		if err := s.handle(request).send(ctx, conn); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// shutDown disconnects after all answers have been sent.
func shutDown(conn *cm.Conn) {
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	if conn.Probe(ctx) == nil { // completes after the answers
		conn.Disconnect(ctx)
	}
}

// handle carries out a request and returns its answer.
func (s *Server) handle(r message) message {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, found := s.values[r.Key]
	slot := s.table[offset(r.Key):][:slotSize]
	answer := message{ID: r.ID}
	switch {
	case r.Op == "PUT":
		s.values[r.Key] = r.Value
		set(slot, r.Key, r.Value)
	case r.Op != "GET" && r.Op != "DELETE":
		answer.Error = "bad request"
	case !found:
		answer.Error = ErrNotFound
	case r.Op == "GET":
		answer.Value = value
	default:
		delete(s.values, r.Key)
		clear(slot)
	}
	return answer
}

// Client uses a store over one connection. Any number of goroutines may call its methods at a
// time.
type Client struct {
	conn  *cm.Conn
	table verbs.RemoteMemory // of the server
	reads *pool.Pool         // takes copies of slots
	free  chan int           // IDs that no request has
	// answers has a channel for the answer to each request in flight, by ID.
	answers   [window]chan message
	receiving chan struct{} // has an element while a call receives
}

// Dial connects to a Server.
func Dial(ctx context.Context, d cm.Dialer, address string) (*Client, error) {
	d.Receive = receives
	conn, err := d.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn, free: make(chan int, window), receiving: make(chan struct{}, 1)}
	for id := range c.answers {
		c.answers[id] = make(chan message, 1)
		c.free <- id
	}
	data := conn.PrivateData() // zeros follow the table on RoCE
	err = c.table.UnmarshalBinary(data[:min(len(data), verbs.RemoteMemoryLen)])
	if err == nil && c.table.Length < tableSize { // Slice would panic
		err = errors.New("the server's table is too short")
	}
	if err == nil { // on iWARP the peer's device writes the data of a READ
		c.reads, err = pool.New(conn.PD(), pool.Config{SlabSize: 64 << 10, Access: verbs.LocalWrite | verbs.RemoteWrite})
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// call sends a request and waits for its answer.
func (c *Client) call(ctx context.Context, r message) (string, error) {
	select {
	case r.ID = <-c.free:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if err := r.send(ctx, c.conn); err != nil {
		c.free <- r.ID
		return "", err
	}
	answer, err := c.await(ctx, r.ID)
	switch {
	case err != nil && ctx.Err() != nil:
		go c.await(context.WithoutCancel(ctx), r.ID) // the ID is in use until the answer comes
		return "", err
	case err == nil && answer.Error != "":
		return "", answer.Error
	}
	return answer.Value, err
}

// await waits for the answer to a request, and frees its ID. One of the waiting calls receives the
// answers of all.
func (c *Client) await(ctx context.Context, id int) (answer message, err error) {
	select {
	case answer = <-c.answers[id]:
		c.free <- id
		return answer, nil
	case <-ctx.Done():
		return answer, ctx.Err()
	case c.receiving <- struct{}{}:
	}
	defer func() { <-c.receiving }()
	for {
		select {
		case answer = <-c.answers[id]:
			c.free <- id
			return answer, nil
		default:
		}
		m, err := c.conn.Receive(ctx)
		if err != nil {
			return answer, err
		}
		var a message
		err = json.Unmarshal(m.Bytes(), &a)
		m.Free()
		if err != nil || a.ID < 0 || a.ID >= window || len(c.answers[a.ID]) > 0 {
			return answer, errors.New("the server sent a wrong answer")
		}
		c.answers[a.ID] <- a
	}
}

// Get returns the value of a key, or ErrNotFound. It reads the slot of the key from the server's
// table. If the slot does not have the value, it sends a request.
func (c *Client) Get(ctx context.Context, key string) (string, error) {
	b, err := c.reads.Get(ctx, slotSize)
	if err != nil {
		return "", err
	}
	defer b.Free()
	op, err := c.conn.StartRead(ctx, b.SGE(), c.table.Slice(offset(key), slotSize), b.Ref())
	if err != nil {
		return "", err
	}
	defer op.Abandon() // if ctx ends before the READ
	if err := op.Wait(ctx); err != nil {
		return "", err
	}
	if value, found := lookup(b.Bytes(), key); found {
		return value, nil
	}
	return c.call(ctx, message{Op: "GET", Key: key})
}

// Put sets the value of a key.
func (c *Client) Put(ctx context.Context, key, value string) error {
	_, err := c.call(ctx, message{Op: "PUT", Key: key, Value: value})
	return err
}

// Delete deletes a key.
func (c *Client) Delete(ctx context.Context, key string) error {
	_, err := c.call(ctx, message{Op: "DELETE", Key: key})
	return err
}

// Close ends the connection. Waiting calls fail.
func (c *Client) Close() error {
	return errors.Join(c.conn.Close(), c.reads.Close())
}
