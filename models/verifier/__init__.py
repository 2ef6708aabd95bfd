"""The parts of the verifier, whose entrance is `lowtide.models.verifier.verify`.

`case` holds what is derived from raw fields, `actions` the well-formed actions of a plan. `order` and
`channels` judge when ops run and how fast bytes move. `simulation` carries the plan out event by event, with
`state` for what each tier holds, `reads` and `flights` for the reads and copies under way; `period` judges
the last instant. `byte_ranges` keeps values on parts of a tensor.
"""
