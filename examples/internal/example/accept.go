// SPDX-License-Identifier: Apache-2.0

package example

import (
	"context"
	"errors"
	"log"
	"time"

	"purerdma/cm"
)

// pause is the time between two attempts to accept a connection.
const pause = 100 * time.Millisecond

// Accept calls accept, the method of a listener. It calls accept again while the process is out of file
// descriptors or memory, because connections that end release some.
func Accept[C any](ctx context.Context, accept func(context.Context) (C, error)) (C, error) {
	for {
		conn, err := accept(ctx)
		oe, ok := errors.AsType[*cm.OpError](err)
		if !ok || !oe.Temporary() || ctx.Err() != nil {
			return conn, err
		}
		log.Print(err)
		time.Sleep(pause)
	}
}
