"""Gate 3b: the contract language. An operator writes rules once; they apply to every later request.

Compile a folder once (`compile_folder`), open a `Session`, call `engine.decide`, and report the outcome with
`transitions.commit`. Everything here is pure except `contracts.session`, which stores the sessions of a workspace.
"""
