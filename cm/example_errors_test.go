// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// advice is the next step of a client after a failed Dial.
type advice int

const (
	giveUp    advice = iota // a repetition does not help
	tryLater                // the same address, after a pause
	tryOthers               // another address of the service
)

// adviseDial returns the next step after an error of Dial.
func adviseDial(err error) advice {
	var (
		rejected    *cm.RejectError
		unreachable *cm.UnreachableError
		argument    *cm.ArgumentError
		state       *cm.StateError
		op          *cm.OpError
	)
	switch {
	case cm.RefusalOf(err) != "": // a limit of the listener, which accepts again after other connections have ended
		return tryLater
	case errors.As(err, &rejected):
		if rejected.Reason == cm.RejectConsumer {
			return giveUp // the server's own decision, with its private data
		}
		return tryOthers // for example because there is no listener
	case errors.As(err, &unreachable): // unreachable.Event shows the failed stage
		return tryOthers
	case errors.As(err, &argument), errors.As(err, &state): // a mistake in this program
		return giveUp
	case errors.As(err, &op) && op.Temporary(): // timeouts, or a lack of descriptors here
		return tryLater
	}
	return giveUp
}

// The next step of a client depends on which side has to change before another attempt can
// succeed.
func ExampleRefusalOf() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, address := range []string{"10.8.0.1:7471", "10.8.0.1:7472"} {
		conn, err := cm.Dial(ctx, "tcp", address)
		if err == nil {
			defer conn.Close()
			fmt.Println("connected to", conn.RemoteAddr())
			return
		}
		if adviseDial(err) != tryOthers {
			log.Fatal(err)
		}
	}
}

// fitPrivateData cuts private data to the maximum length of its message.
func fitPrivateData(err error, data []byte) []byte {
	var argument *cm.ArgumentError
	if errors.As(err, &argument) && argument.Name == "len(PrivateData)" {
		return data[:argument.Max]
	}
	return data
}

// The error names the argument and its limit.
func ExampleArgumentError() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	data := make([]byte, 100)
	conn, err := (&cm.Dialer{Param: &cm.ConnParam{PrivateData: data}}).Dial(ctx, "tcp", "10.8.0.1:7471")
	if err != nil {
		data = fitPrivateData(err, data)
		conn, err = (&cm.Dialer{Param: &cm.ConnParam{PrivateData: data}}).Dial(ctx, "tcp", "10.8.0.1:7471")
	}
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
}

// lost reports whether a failed operation has ended its connection, and a reason for the log.
func lost(err error) (reason string, ended bool) {
	var (
		broken       *cm.BrokenError
		disconnected *cm.DisconnectedError
		removed      *verbs.DeviceRemovedError
	)
	switch {
	case errors.As(err, &removed):
		return "the device was removed", true
	case errors.As(err, &disconnected):
		if disconnected.Local {
			return "this side has disconnected", true
		}
		return "the peer has left", true
	case errors.As(err, &broken):
		switch {
		case broken.Timeout():
			return "the peer's host is dead", true
		case broken.Cancelled:
			return "a " + broken.Op + " took too long", true
		}
		return "a work request failed", true // broken.Err wraps a *verbs.WCError
	}
	return "", false // for example, a context that ended before the request was posted
}

// This client dials again when an operation has ended the connection.
func ExampleBrokenError() {
	ctx := context.Background()
	conn, err := cm.Dial(ctx, "tcp", "10.8.0.1:7471")
	if err != nil {
		log.Fatal(err)
	}
	buf, err := conn.Alloc(4096, verbs.LocalWrite)
	if err != nil {
		log.Fatal(err)
	}
	soon, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err = conn.Send(soon, buf.Slice(0, 5))
	if reason, ended := lost(err); ended {
		log.Print("dialing again: ", reason)
		conn.Close()
		if conn, err = cm.Dial(ctx, "tcp", "10.8.0.1:7471"); err != nil {
			log.Fatal(err)
		}
	}
	defer conn.Close()
}

// The error names the state of the ID and the states in which the call is possible.
func ExampleStateError() {
	ch, err := cm.NewEventChannel(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ch.Close()
	id, err := ch.NewID(cm.IDConfig{})
	if err != nil {
		log.Fatal(err)
	}
	var state *cm.StateError
	if err := id.Connect(nil); errors.As(err, &state) {
		fmt.Printf("called in state %q, possible in %q\n", state.State, state.Want)
	}
}
